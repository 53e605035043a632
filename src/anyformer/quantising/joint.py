"""Matrices that read the same input, held as one: a product of few rows takes little longer than its call."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, dtype
from torch.overrides import TorchFunctionMode

from anyformer.parts.experts.chosen import chosen_product
from anyformer.parts.experts.grouped import grouped_products
from anyformer.quantising.format import MatrixFormat
from anyformer.quantising.formats import plain_of
from anyformer.quantising.tensor import PackedMatrix, Quantised


def read_together(run: Callable[[], object], among: Container[int]) -> list[list[Tensor]]:
    """Matrices that linear maps multiply by one input wherever `run`, a call of a model, multiplies by any of them.

    `among`: the identities of those that are asked about. No product is computed, all are zero: so this takes no longer for a
    larger model.
    """
    with torch.no_grad(), _Watching(among) as watching:
        run()
    return list(_side_by_side(watching.calls))


def joined(matrices: Sequence[Tensor], dtype: dtype) -> list[OutputSlice] | None:
    """Matrices (O, I) alike as spans of the outputs of one, which computes in `dtype`; None where a format cannot be joined."""
    first = matrices[0]
    if isinstance(first, Quantised):
        stored = [each.planes for each in matrices if isinstance(each, Quantised)]
        planes = (format := first.format).joined(stored, [tuple(each.shape) for each in matrices])
        if planes is None:
            return None
    else:
        planes = (format := plain_of(first)).ordered(torch.cat([each.detach() for each in matrices]))
    ends = [0, *accumulate(map(len, matrices))]
    joint = Joint(PackedMatrix(planes, format, (ends[-1], first.shape[1]), dtype), len(matrices))
    return [OutputSlice.cut(joint, *span) for span in pairwise(ends)]


class Joint:
    """x (..., I) -> (..., O) of all pieces, computed when the first of them asks for the product with an x."""

    def __init__(self, whole: PackedMatrix, pieces: int) -> None:
        self.whole, self.pieces = whole, pieces
        self._x: Tensor | None = None
        self._y: Tensor | None = None
        self._asked = 0

    def __call__(self, x: Tensor) -> Tensor:
        if self._y is None or x is not self._x:
            self._x, self._y, self._asked = x, F.linear(x, self.whole), 0
        y, self._asked = self._y, self._asked + 1
        if self._asked == self.pieces:
            self._x = self._y = None
        return y


class OutputSlice(PackedMatrix):
    """Outputs `start` to `stop` of a joint matrix."""

    joint: Joint
    start: int
    stop: int

    @classmethod
    def cut(cls, joint: Joint, start: int, stop: int) -> OutputSlice:
        whole = joint.whole
        made = cls(whole.planes, whole.format, (stop - start, whole.shape[1]), whole.dtype)
        made.joint, made.start, made.stop = joint, start, stop
        return made

    @property
    def restored(self) -> Tensor:
        """A copy of the rows of the joint matrix."""
        return self.joint.whole.restored[self.start : self.stop].clone()

    @property
    def stored_bytes(self) -> int:
        """Its share of the bytes of the joint matrix."""
        return self.joint.whole.stored_bytes * len(self) // len(self.joint.whole)

    @property
    def read_bytes(self) -> int:
        """Its share of what a product with the joint matrix reads."""
        return self.joint.whole.read_bytes * len(self) // len(self.joint.whole)

    def times(self, x: Tensor, bias: Tensor | None) -> Tensor:
        y = self.joint(x)[..., self.start : self.stop]
        # Of one row a span lies side by side; of several, what follows may want to see it in another shape.
        y = y if y.shape[:-1].numel() == 1 else y.contiguous()
        return y if bias is None else y + bias

    def alike(self, planes: Mapping[str, Tensor], dtype: dtype) -> OutputSlice:
        assert dtype == self.dtype, "a piece stays with the others, in their type and on their device"
        return type(self).cut(self.joint, self.start, self.stop)


class _Watching(TorchFunctionMode):
    """Inside, the matrices of linear maps are put down in the order of their calls, with the input of each."""

    def __init__(self, among: Container[int]) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, Tensor]] = []
        self._among = among

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (grouped_products, chosen_product):
            rows, matrices = args[:2]
            return rows.new_zeros(len(rows), matrices.shape[1])
        if func is F.linear:
            x, matrix = args[:2]
            if id(matrix) in self._among:
                self.calls.append((x, matrix))
            return x.new_zeros(*x.shape[:-1], len(matrix))
        return func(*args, **(kwargs or {}))


def _side_by_side(calls: list[tuple[Tensor, Tensor]]) -> Iterator[list[Tensor]]:
    """Matrices alike that follow one another with the same input wherever one of them is called."""
    groups: dict[int, list[Tensor]] = {}
    for x, matrix in calls:
        groups.setdefault(id(x), []).append(matrix)
    found: dict[tuple[int, ...], list[Tensor]] = {}
    seen: dict[int, set[tuple[int, ...]]] = {}
    for matrices in groups.values():
        for kind in set(map(_kind, matrices)):
            alike = [each for each in matrices if _kind(each) == kind]
            key = tuple(map(id, alike))
            found[key] = alike
            for each in key:
                seen.setdefault(each, set()).add(key)
    for key, matrices in found.items():
        if len(key) > 1 and len(set(key)) == len(key) and all(seen[each] == {key} for each in key):
            yield matrices


def _kind(matrix: Tensor) -> tuple[MatrixFormat | None, dtype]:
    return matrix.format if isinstance(matrix, Quantised) else None, matrix.dtype
