"""A metric under one intervention after another: parts of a path's value replaced, one part per row of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.metrics import Metric
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named

ROWS = 64
"""Rows computed together at most, where a prompt has fewer itself."""
Cell = tuple[int | slice, ...]
"""An index into a value without its rows."""


def axes_of(model: Transformer, path: str, by: str) -> tuple[int, ...]:
    """The dimensions of a path's value that letters name: `T` its positions, `H` its heads; refused where it has none."""
    letters, found = model.watchable()[path].letters, []
    for letter in by:
        if letter not in letters[1:]:
            raise InputError(
                f"{path} is ({', '.join(letters)}), which has no {letter}: ask by another letter of it, or about other paths"
            )
        found.append(letters.index(letter))
    return tuple(found)


def cells(sizes: Sequence[int], axes: Sequence[int]) -> Iterator[Cell]:
    """An index for each place along `axes` of a value of these sizes, all of it along the others; rows are left out."""
    for places in product(*(range(sizes[axis]) for axis in axes)):
        at: list[int | slice] = [slice(None)] * (len(sizes) - 1)
        for axis, place in zip(axes, places, strict=True):
            at[axis - 1] = place
        yield tuple(at)


def replaced(value: Tensor, other: Tensor, chosen: Sequence[Cell]) -> Tensor:
    """`value` (cells * B, ...), rows of a prompt once per cell, with each cell of its own rows as in `other` (B, ...)."""
    result, B = value.clone(), len(other)
    for number, cell in enumerate(chosen):
        rows = slice(number * B, (number + 1) * B)
        result[(rows, *cell)] = other[(slice(None), *cell)].to(value.dtype)
    return result


def swept(
    model: Transformer, prompt: CallInputs, metric: Metric, path: str, other: Tensor, by: str, rows: int = ROWS
) -> Tensor:
    """The metric of a prompt's B rows with the value at `path` as in `other`, place by place along the letters of `by`.

    (places along the first letter, ..., B); without a letter the whole value at once, (B,).
    """
    axes = axes_of(model, path, by)
    B, places, found = len(prompt), iter(list(cells(other.shape, axes))), []
    with torch.no_grad():
        while chosen := list(islice(places, max(1, rows // B))):
            with model.patch(path, partial(replaced, other=other, chosen=chosen)):
                logits = prompt.repeated(len(chosen)).logits(model)
            found += [metric(each) for each in logits.view(len(chosen), B, *logits.shape[1:])]
    return torch.stack(found).view(*(other.shape[axis] for axis in axes), B)


def kept_values(
    model: Transformer, prompt: CallInputs, paths: Sequence[str], metric: Metric | None = None
) -> tuple[Mapping[str, Tensor], Tensor]:
    """The values at `paths` in a call, and the metric of it, or its logits where there is none."""
    with torch.no_grad(), model.watch(*paths) as seen:
        logits = prompt.logits(model)
    return {path: seen[path] for path in paths}, logits if metric is None else metric(logits)


def summed_but(value: Tensor, axes: Sequence[int]) -> Tensor:
    """A value (B, ...) summed over all dimensions but its rows and `axes`: (places along the first axis, ..., B)."""
    others = [at for at in range(1, value.dim()) if at not in axes]
    kept = value.sum(others) if others else value
    order = sorted(axes)
    return kept.permute(*(1 + order.index(axis) for axis in axes), 0)


def checked_paths(model: Transformer, paths: Sequence[str], by: str) -> tuple[str, ...]:
    """The paths that patterns name as `model.watch` takes them, all with the letters of `by`; refused before any work."""
    chosen = named(model.architecture, paths)
    for path in chosen:
        axes_of(model, path, by)
    return chosen


def largest_first(values: Tensor, count: int) -> list[tuple[int, ...]]:
    """The indices of the `count` values furthest from 0, the furthest first."""
    order = values.flatten().abs().argsort(descending=True, stable=True)[:count]
    return list(zip(*(places.tolist() for places in torch.unravel_index(order, values.shape)), strict=True))
