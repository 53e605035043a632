"""Which weights of a reference need no place: those that change no logit (a pooler), and tables that a formula gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import torch
from torch import Tensor

from anyformer.huggingface.verifying import example_of, target_of
from anyformer.model import Architecture
from anyformer.parts import SinusoidalPosition
from anyformer.porting.proof import logits_of
from anyformer.porting.reference import TinyReference
from anyformer.porting.tensors import FileModule

_LENGTH = 13


def unread(of: TinyReference, like: Architecture, modules: Iterable[FileModule]) -> tuple[FileModule, ...]:
    """The modules outside of layers whose weights, changed, leave every logit as it is, and those that are sines and cosines.

    `like`: an architecture with the reference's input. Layers are left out: some of their weights count in long texts alone.
    """
    given = example_of(like, 1, _LENGTH, 0)
    target = target_of(like, 1, _LENGTH, 1) if like.two_inputs else None
    tensors: Mapping[str, Tensor] = {
        **dict(of.model.named_buffers()),
        **dict(of.model.named_parameters(remove_duplicate=False)),
    }
    found = []
    with torch.no_grad():
        try:
            before = logits_of(of.model, given, target)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):  # another input than these tokens
            return ()
        for each in (each for each in modules if "{i}" not in each.name and "{x}" not in each.name):
            held = [tensors[name] for leaf in each.leaves if (name := _named(f"{each.name}.{leaf}".rstrip("."), tensors))]
            if len(held) != len(each.leaves):
                continue
            if all(map(_are_waves, held)) or not _moves(of, held, before, given, target):
                found.append(each)
    return tuple(found)


def _are_waves(table: Tensor) -> bool:
    """Whether a table has the sines and cosines of positions, as they are added or as heads are turned by."""
    if table.dim() != 2 or not table.is_floating_point() or table.shape[1] % 2 or min(table.shape) < 4:
        return False
    for layout, spacing, first in product(("halves", "interleaved"), ("paper", "inclusive"), range(3)):
        part = SinusoidalPosition(layout=layout, spacing=spacing)  # type: ignore[arg-type]
        waves = part.vectors(torch.arange(first, len(table)) - first, table.shape[1])
        if len(waves) and torch.allclose(table[first:].float(), waves.float(), atol=1e-4):
            return True
    return False


def _named(stored: str, tensors: Mapping[str, Tensor]) -> str | None:
    """The name in the model of a stored tensor, with or without the prefix of the other."""
    return next(
        (name for name in tensors if name == stored or name.endswith(f".{stored}") or stored.endswith(f".{name}")), None
    )


def _moves(of: TinyReference, held: list[Tensor], before: Tensor, given: Tensor, target: Tensor | None) -> bool:
    """Whether other values of these tensors change a logit; they are put back."""
    kept = [tensor.clone() for tensor in held]
    if not all(tensor.is_floating_point() for tensor in held):
        return True
    generator = torch.Generator().manual_seed(0)
    for tensor in held:
        tensor.add_(torch.randn(tensor.shape, generator=generator))
    try:
        return not torch.equal(logits_of(of.model, given, target), before)
    finally:
        for tensor, value in zip(held, kept, strict=True):
            tensor.copy_(value)
