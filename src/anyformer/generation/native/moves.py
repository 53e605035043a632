"""Torch's operators that move numbers, as operations of a table: side by side, or to and from named places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.functions import Write, copied
from anyformer.generation.native.table import StepWriter, UnknownError, Word, joined, kind, spread, strides_of

ONE_NUMBER = "constant"
"""Torch's word for padding with one number."""


def _concatenated(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    tensors, dim = given["tensors"], given["dim"]
    start = 0
    for each in tensors:
        if each.numel():
            copied(writer, out.narrow(dim, start, each.shape[dim]), each)
            start += each.shape[dim]


def _stacked(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    for number, each in enumerate(given["tensors"]):
        copied(writer, out.select(given["dim"], number), each)


def _reshaped(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    copied(writer, out.view(given["self"].shape), given["self"])


def _repeated(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    source, repeats, dim = given["self"], given["repeats"], given["dim"]
    if not isinstance(repeats, int) or dim is None:
        raise UnknownError("numbers repeated unequally")
    dim %= source.dim()
    copied(
        writer, out.view(*source.shape[:dim], source.shape[dim], repeats, *source.shape[dim + 1 :]), source.unsqueeze(dim + 1)
    )


def _tiled(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    source, repeats = given["self"], given["repeats"]
    wide = source.view(*[1] * (len(repeats) - source.dim()), *source.shape)
    pieces = out.view([size for pair in zip(repeats, wide.shape, strict=True) for size in pair])
    copied(writer, pieces, wide.view([size for each in wide.shape for size in (1, each)]))


def _padded(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    source, inside = given["self"], out
    if given.get("mode", ONE_NUMBER) != ONE_NUMBER:
        raise UnknownError("a padding by other numbers")
    copied(writer, out, given["value"] or 0)
    for d, (before, after) in enumerate(zip(given["pad"][::2], given["pad"][1::2], strict=True)):
        if before < 0 or after < 0:
            raise UnknownError("a padding that cuts")
        inside = inside.narrow(-1 - d, before, source.shape[-1 - d])
    copied(writer, inside, source)


def indexed(writer: StepWriter, out: Tensor, source: Tensor, shape: Sequence[int], indices: Sequence[tuple[int, int, Tensor]],
            *, writes: bool, adds: bool = False) -> None:  # fmt: skip
    """Numbers of `source` at the places that indices name, or written to those of `out`; `out`, `source`: repeated to `shape`.

    An index: bytes from a place to the next, how many there are, and the numbers of places.
    """
    tensors = [out, source, *(each for *_, each in indices)]
    sizes, strides = joined(shape, [spread(each, shape) for each in tensors])
    words: list[Word] = [int(writes), int(adds), len(sizes), len(indices), *sizes]
    for number, (tensor, own) in enumerate(zip(tensors, strides, strict=True)):
        if number >= 2:
            words += indices[number - 2][:2]
        words += [writer.place(tensor), kind(tensor), *own]
    if len(indices) > 2:
        raise UnknownError(f"{len(indices)} indices")
    writer.put("indexed", words)


def _still(tensor: Tensor, dim: int, size: int) -> Tensor:
    """A tensor that does not move along a size."""
    return tensor.select(dim, 0).unsqueeze(dim).expand(*(size if d == dim else each for d, each in enumerate(tensor.shape)))


def _along(tensor: Tensor, index: Tensor, dim: int) -> tuple[int, int, Tensor]:
    return strides_of(tensor)[dim], tensor.shape[dim], index


def _selected(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    source, dim, index = given["self"], given["dim"] % given["self"].dim(), given["index"]
    wide = index.view(-1, *[1] * (source.dim() - dim - 1))
    indexed(writer, out, _still(source, dim, out.shape[dim]), out.shape, [_along(source, wide, dim)], writes=False)


def _looked_up(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    table, index = given["weight"], given["indices"]
    source = table[0].expand(out.shape)
    indexed(writer, out, source, out.shape, [_along(table, index.unsqueeze(-1), 0)], writes=False)


def _gathered(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    source, dim, index = given["self"], given["dim"] % max(given["self"].dim(), 1), given["index"]
    begin = source[tuple(slice(None) if d == dim else slice(0, size) for d, size in enumerate(index.shape))]
    indexed(writer, out, _still(begin, dim, index.shape[dim]), out.shape, [_along(source, index, dim)], writes=False)


def _at(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """x[i, j]: indices of the first sizes alone, or of one."""
    source = given["self"]
    named = [(d, index) for d, index in enumerate(given["indices"]) if index is not None]
    dims = [d for d, _ in named]
    if any(index.dtype == torch.bool for _, index in named) or dims != list(range(dims[0], dims[0] + len(dims))):
        raise UnknownError("indices by a mask, or apart")
    first, behind = dims[0], source.dim() - dims[-1] - 1
    base = source
    for d in reversed(dims):
        base = base.select(d, 0)
    shape = torch.broadcast_tensors(*(index for _, index in named))[0].shape  # type: ignore[no-untyped-call]
    base = base.view_as(base)[(slice(None),) * first + (None,) * len(shape)] if shape else base
    each = [_along(source, index.view(*index.shape, *[1] * behind), d) for d, index in named]
    indexed(writer, out, base.expand(out.shape), out.shape, each, writes=False)


def _begun(writer: StepWriter, given: dict[str, Any], out: Tensor) -> Tensor:
    """The tensor that is written to: that which was given, or a copy of it."""
    if out.data_ptr() != given["self"].data_ptr():
        copied(writer, out, given["self"])
    return out


def _written(key: str = "source") -> Write:
    def write(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
        goal, dim, index, source = _begun(writer, given, out), given["dim"] % out.dim(), given["index"], given[key]
        wide = index.view(-1, *[1] * (goal.dim() - dim - 1))
        shape = source.shape
        indexed(writer, _still(goal, dim, shape[dim]), source, shape, [_along(goal, wide, dim)], writes=True)

    return write


def _scattered(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """x[.., index, ..] = y along one size, at the other sizes' own places."""
    if given.get("reduce") is not None:
        raise UnknownError("numbers scattered and added up")
    goal, dim, index = _begun(writer, given, out), given["dim"] % out.dim(), given["index"]
    inside = goal[tuple(slice(size) for size in index.shape)]
    source = given.get("src")
    source = torch.tensor(given["value"], dtype=out.dtype) if source is None else source[tuple(map(slice, index.shape))]
    if not writer.knows(source):
        writer.hold(source, source)
    spread_out = _still(inside, dim, index.shape[dim])
    indexed(writer, spread_out, source.expand(index.shape), index.shape, [_along(goal, index, dim)], writes=True)


def _put(writer: StepWriter, given: dict[str, Any], out: Tensor) -> None:
    """x[i] = y, of an index of one size."""
    goal, source = _begun(writer, given, out), given["values"]
    named = [(d, index) for d, index in enumerate(given["indices"]) if index is not None]
    if len(named) != 1 or named[0][1].dtype == torch.bool or named[0][1].dim() != 1:
        raise UnknownError("numbers written to several indices")
    ((dim, index),) = named
    wide = index.view(-1, *[1] * (goal.dim() - dim - 1))
    shape = [len(index) if d == dim else size for d, size in enumerate(goal.shape)]
    indexed(writer, _still(goal, dim, len(index)), source.expand(shape), shape, [_along(goal, wide, dim)], writes=True,
            adds=given["accumulate"])  # fmt: skip


MOVES: Mapping[str, Write] = {
    **dict.fromkeys(("aten::reshape", "aten::flatten"), _reshaped),
    **dict.fromkeys(("aten::constant_pad_nd", "aten::pad"), _padded),
    "aten::stack": _stacked, "aten::repeat": _tiled, "aten::repeat_interleave": _repeated, "aten::cat": _concatenated,
    "aten::index_select": _selected,
    "aten::embedding": _looked_up, "aten::gather": _gathered, "aten::index": _at, "aten::index_copy": _written(),
    "aten::index_put": _put, "aten::scatter": _scattered,
}  # fmt: skip
"""What each operator puts down."""
