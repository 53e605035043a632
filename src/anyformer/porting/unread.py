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

    `like`: an architecture with the reference's input. Of layers only buffers are tried, which no training changes: some of
    their weights count in long texts alone.
    """
    given = example_of(like, 1, _LENGTH, 0)
    target = target_of(like, 1, _LENGTH, 1) if like.two_inputs else None
    tensors: Mapping[str, Tensor] = {
        **dict(of.model.named_buffers()),
        **dict(of.model.named_parameters(remove_duplicate=False)),
    }
    buffers = {name for name, _ in of.model.named_buffers()}
    found = []
    with torch.no_grad():
        try:
            before = logits_of(of.model, given, target)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):  # another input than these tokens
            return ()
        for each in (each for each in modules if "{x}" not in each.name):
            names = _names(each, tensors)
            if names is None or ("{i}" in each.name and not {*names} <= buffers):
                continue
            held = [tensors[name] for name in names]
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


def _names(module: FileModule, tensors: Mapping[str, Tensor]) -> list[str] | None:
    """The names in the model of a module's stored tensors, of all layers; None where one is not there."""
    layers = [module.name.replace("{i}", str(layer)) for layer in sorted(module.layers)]
    found = [_named(f"{name}.{leaf}".rstrip("."), tensors) for name in layers for leaf in module.leaves]
    names = [name for name in found if name is not None]
    return names if len(names) == len(found) else None


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
