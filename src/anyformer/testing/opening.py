"""Contracts of the values inside a model: those declared are seen, with their shapes, and can be replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.operations import Watchable
from anyformer.parts.call.opened import Inquiry
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from anyformer.testing.decoding import whole_only
from anyformer.testing.inputs import inputs, tokens
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
    with model.watch("**") as seen:
        written_out = model.predictions(*given)
    with model.patch("**", torch.clone):
        assert _same(model.predictions(*given), written_out), "values replaced by equal ones change the output"
    ahead = {path for path, each in model.watchable().items() if each.ahead}
    paths = [path for path in of_each_variant(architecture, seen) if path not in ahead]
    still = _without_effect(model, given, [path for path in paths if len(seen[path]) == len(given[0])])
    for path in (path for path in paths if len(seen[path]) != len(given[0])):
        with model.patch(path, _emptied):
            still += [path] if _same(model.predictions(*given), written_out) else []
    assert not still, f"replaced by zeros, and the output is as before: {still}"


def _without_effect(model: Transformer, given: tuple[Tensor, ...], paths: list[str]) -> list[str]:
    """The paths whose values can be replaced and leave the output of their row as it is: in one call a row for each."""
    rows = tuple(x[:1].expand(len(paths), *x.shape[1:]) for x in given)

    def outputs(change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        with ExitStack() as stack:
            for row, path in enumerate(paths):
                stack.enter_context(model.patch(path, partial(_of_row, row=row, change=change)))
            return model.predictions(*rows)

    alone, emptied = outputs(torch.clone), outputs(_emptied)
    return [path for row, path in enumerate(paths) if _same((x[row] for x in emptied), (x[row] for x in alone))]


def _of_row(value: Tensor, row: int, change: Callable[[Tensor], Tensor]) -> Tensor:
    """A value of which one row is changed."""
    return torch.cat([value[:row], change(value[row : row + 1]), value[row + 1 :]])


def _emptied(value: Tensor) -> Tensor:
    """Zeros, or ones in the place of zeros."""
    return torch.zeros_like(value) if bool(value.any()) else torch.ones_like(value)


def watched_steps_are_those_of_the_whole(architecture: Architecture) -> None:
    """What is seen of tokens that are read one by one is what is seen of the whole; a state replaced changes the next step."""
    if whole_only(architecture):
        return
    model, x = looked_at(architecture), tokens(architecture)
    ofs = {path: each for path, each in model.watchable().items() if each.letters[:2] == "BT"}
    ahead = [path for path, each in model.watchable().items() if each.ahead]
    with model.watch(*ofs) as whole:
        y = model(x)
    state = model.state(len(x), x.shape[1])
    with model.watch(*ofs) as steps:
        pieces = [model(token, state=state) for token in torch.split(x, 1, 1)]
    if not torch.allclose(torch.cat(pieces, 1), y, 1e-3, 1e-3):
        return  # another contract tells
    for path in whole:
        pieces = [call[path] for call in steps.calls if path in call]
        assert len(pieces) == x.shape[1], f"{path}: is seen in {len(pieces)} of {x.shape[1]} steps"
        equal(torch.cat(pieces, 1), whole[path].expand(len(pieces[0]), *whole[path].shape[1:]), path)
    still = [path for path in of_each_variant(architecture, ahead) if _same([_second(model, x, path)], [_second(model, x)])]
    assert not still, f"replaced by zeros, and the next step is as before: {still}"


def _second(model: Transformer, x: Tensor, path: str | None = None) -> Tensor:
    """The output of the second of two steps, after the first in which the value at a path is emptied."""
    state = model.state(len(x), x.shape[1])
    with nullcontext() if path is None else model.patch(path, _emptied):
        model(x[:, :3], state=state)
    second: Tensor = model(x[:, 3:4], state=state)
    return second


def _same(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    return all(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True) for one, other in zip(some, others, strict=True))


def of_each_variant(architecture: Architecture, paths: Iterable[str]) -> Iterator[str]:
    """Those of the paths that lead outside of layers, or into the first layer of a variant; not into an attention whose queries
    see one key each, which has the weight 1 whatever the scores."""
    left_out = []
    for name, stack in architecture.stacks.items():
        for i, variant in enumerate(stack.layers):
            layer, branches = f"{name}.layer[{i}].", stack.variants[variant].branches
            decided = [each for each, branch in branches.items() if any(mask.window == 1 for mask in branch.sublayer.masks)]
            left_out += [f"{layer}{each}." for each in decided] if stack.layers.index(variant) == i else [layer]
    return (path for path in paths if not path.startswith(tuple(left_out)))
