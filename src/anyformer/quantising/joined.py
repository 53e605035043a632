"""Matrices that read the same input, held as one: a product of few rows takes little longer than its call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

import torch.nn.functional as F
from torch import Tensor, dtype, nn
from torch.overrides import TorchFunctionMode

from anyformer.quantising.tensor import Packed


def join(model: nn.Module, run: Callable[[], Tensor]) -> Tensor:
    """Join the packed matrices that linear maps multiply by one input in `run`, a call of the model; what that gives.

    Each becomes a span of the outputs of one matrix, and holds no numbers of its own. Matrices that layers share are joined
    where they stand side by side in every call.
    """
    with _Watching() as watching:
        result = run()
    pieces: dict[int, Piece] = {}
    for matrices in _side_by_side(watching.calls):
        planes = matrices[0].format.joined([each.planes for each in matrices], [tuple(each.shape) for each in matrices])
        if planes is None:
            continue
        ends = [0, *accumulate(len(each) for each in matrices)]
        whole = Packed(planes, matrices[0].format, (ends[-1], matrices[0].shape[1]), matrices[0].dtype)
        joint = Joint(whole, len(matrices))
        pieces |= {id(each): Piece.cut(joint, *span) for each, span in zip(matrices, pairwise(ends), strict=True)}
    for module in model.modules():
        for leaf, value in list(module.named_parameters(recurse=False)):
            if id(value) in pieces:
                setattr(module, leaf, nn.Parameter(pieces[id(value)], requires_grad=False))
    return result


class Joint:
    """x (..., I) -> (..., O) of all pieces, computed when the first of them asks for the product with an x."""

    def __init__(self, whole: Packed, pieces: int) -> None:
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


class Piece(Packed):
    """Outputs `start` to `stop` of a joint matrix."""

    joint: Joint
    start: int
    stop: int

    @classmethod
    def cut(cls, joint: Joint, start: int, stop: int) -> Piece:
        whole = joint.whole
        made = cls(whole.planes, whole.format, (stop - start, whole.shape[1]), whole.dtype)
        made.joint, made.start, made.stop = joint, start, stop
        return made

    @property
    def restored(self) -> Tensor:
        """The rows of the joint matrix."""
        return self.joint.whole.restored[self.start : self.stop]

    @property
    def stored_bytes(self) -> int:
        """Its share of the bytes of the joint matrix."""
        return self.joint.whole.stored_bytes * len(self) // len(self.joint.whole)

    def times(self, x: Tensor, bias: Tensor | None) -> Tensor:
        y = self.joint(x)[..., self.start : self.stop]
        # Of one row a span lies side by side; of several, what follows may want to see it in another shape.
        y = y if y.shape[:-1].numel() == 1 else y.contiguous()
        return y if bias is None else y + bias

    def alike(self, planes: Mapping[str, Tensor], dtype: dtype) -> Piece:
        assert dtype == self.dtype, "a piece stays with the others, in their type and on their device"
        return type(self).cut(self.joint, self.start, self.stop)


class _Watching(TorchFunctionMode):
    """Inside, the matrices of linear maps are put down in the order of their calls, with the input of each."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, Packed]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and isinstance(args[1], Packed) and not isinstance(args[1], Piece):
            self.calls.append((args[0], args[1]))
        return func(*args, **(kwargs or {}))


def _side_by_side(calls: list[tuple[Tensor, Packed]]) -> Iterator[list[Packed]]:
    """Matrices of one format and type that follow each other with the same input wherever one of them is called."""
    groups: dict[int, list[Packed]] = {}
    for x, matrix in calls:
        groups.setdefault(id(x), []).append(matrix)
    found: dict[tuple[int, ...], list[Packed]] = {}
    seen: dict[int, set[tuple[int, ...]]] = {}
    for matrices in groups.values():
        for kind in {(each.format, each.dtype) for each in matrices}:
            alike = [each for each in matrices if (each.format, each.dtype) == kind]
            key = tuple(map(id, alike))
            found[key] = alike
            for each in key:
                seen.setdefault(each, set()).add(key)
    for key, matrices in found.items():
        if len(key) > 1 and len(set(key)) == len(key) and all(seen[each] == {key} for each in key):
            yield matrices
