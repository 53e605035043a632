"""Contracts of the values inside a model: those declared are seen, with their shapes, and can be replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.operations import Watchable
from anyformer.parts.call.opened import Inquiry
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from anyformer.testing.inputs import inputs
from anyformer.testing.models import looked_at

_LAST = re.compile(r"\.[^.]*\Z")
WRITTEN_OUT = Plan(attention="plain")
"""The plan whose kernels keep nothing to themselves."""


class ValueRecorder:
    """Asks for values as they are computed, declared or not. `wanted`: those that are written out where anybody asks."""

    def __init__(self, wanted: frozenset[str] = frozenset()) -> None:
        self.wanted = wanted
        self.met_at: list[tuple[str, Tensor, Tensor]] = []

    def wants(self, path: str) -> bool:
        return path in self.wanted

    def enters(self, path: str) -> Tensor | None:
        return None

    def met(self, path: str, value: Tensor) -> Tensor:
        self.met_at.append((path, value, value.clone()))
        return value


@contextmanager
def asking(model: Transformer, asked: Inquiry) -> Iterator[None]:
    """Inside, `asked` is asked of every call of the model."""
    model.asked = asked
    try:
        yield
    finally:
        model.asked = None


def declared_values_are_seen(architecture: Architecture) -> None:
    """The values that a model shows in a call are those that it declares, each once, with the declared shapes."""
    model, given = looked_at(architecture, WRITTEN_OUT), inputs(architecture)
    declared = model.watchable()
    recorder = ValueRecorder(frozenset(declared))
    with asking(model, recorder):
        model.predictions(*given)
    met = [path for path, _, _ in recorder.met_at]
    twice = sorted({path for path in met if met.count(path) > 1})
    assert not twice, f"seen more than once in a call, so that no value belongs to the path: {twice}"
    hidden, undeclared = [path for path in declared if path not in met], [path for path in met if path not in declared]
    assert not hidden, f"declared by `watchable`, and not seen in a call: {hidden}"
    assert not undeclared, f"seen, and not declared by `watchable`: {undeclared}"
    sizes: dict[tuple[str, str], int] = {}
    for path, value, then in recorder.met_at:
        assert torch.equal(value, then) or bool(then.isnan().any()), f"{path}: is overwritten after it was seen"
        _has_shape(path, value, declared[path], len(given[0]), sizes)


def _has_shape(path: str, value: Tensor, declared: Watchable, rows: int, sizes: dict[tuple[str, str], int]) -> None:
    """Refuse a value of another shape than declared. The letters of a call mean one size within a part."""
    shape, part = tuple(value.shape), _LAST.sub("", path)
    assert len(shape) == len(declared.letters), f"{path}: has shape {shape}, declared as {declared.shape}"
    for letter, size in zip(declared.letters, shape, strict=True):
        if letter == "B":
            fits = size in (1, rows)
        elif letter in declared.sizes:
            fits = size == declared.sizes[letter]
        else:
            fits = sizes.setdefault((part, letter), size) == size
        assert fits, f"{path}: has shape {shape}, declared as {declared.shape}"


def watching_changes_no_bit(architecture: Architecture) -> None:
    """A call that is watched gives the same bits, where no kernel is written out for it; else equal numbers."""
    model, given = looked_at(architecture, WRITTEN_OUT), inputs(architecture)
    alone, declared = model.predictions(*given), model.watchable()
    kept = [path for path, each in declared.items() if not each.written_out]
    with model.watch(*kept):
        assert _same(model.predictions(*given), alone), "watched values change the output"
    with model.watch(*declared):
        for watched, plain in zip(model.predictions(*given), alone, strict=True):
            equal(watched, plain, "watched, with the values that kernels keep to themselves")


def patched_values_are_gone_on_with(architecture: Architecture) -> None:
    """Values replaced by equal ones change no bit; replaced by zeros, or by ones where it is zero, each changes the output."""
    model, given = looked_at(architecture, WRITTEN_OUT), inputs(architecture)
    alone = model.predictions(*given)
    with model.watch("**") as seen:
        written_out = model.predictions(*given)
    with model.patch("**", lambda value: value.clone()):
        assert _same(model.predictions(*given), written_out), "values replaced by equal ones change the output"
    still = []
    for path in of_each_variant(architecture, seen):
        with model.patch(path, 0.0 if bool(seen[path].any()) else 1.0):
            still += [path] if _same(model.predictions(*given), alone) else []
    assert not still, f"replaced by zeros, and the output is as before: {still}"


def _same(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def of_each_variant(architecture: Architecture, paths: Iterable[str]) -> Iterator[str]:
    """Those of the paths that lead outside of layers, or into the first layer of a variant."""
    first = {
        f"{name}.layer[{stack.layers.index(variant)}]"
        for name, stack in architecture.stacks.items()
        for variant in stack.variants
    }
    for path in paths:
        layer = path.partition("]")[0] + "]"
        if ".layer[" not in path or layer in first or path.startswith("mtp."):
            yield path
