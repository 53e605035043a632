"""Changes along one factor of one dimension of a weight: which operation makes them, by what the factor counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from anyformer.operations import AxisName, Dimension, Weight
from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Fresh, MadeWeight
from anyformer.transforming.resized import Resized, regrouped, rewritten, stretched, widened


class ResizingRule(Protocol):
    """A change of one size, on tensors in which the factor is a dimension."""

    @property
    def words(self) -> str: ...

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        """`fresh` makes the initial value of the whole new weight, its factors unfolded."""
        ...


def _refusing(reason: str) -> Callable[[Resized, TransformChoices], ResizingRule]:
    def refuse(change: Resized, choices: TransformChoices) -> ResizingRule:
        raise TransformError(f"{change.where}: {change.old} -> {change.new} {reason}")

    return refuse


RULES: Mapping[AxisName, Callable[[Resized, TransformChoices], ResizingRule]] = {
    "kv_heads": regrouped,
    "vocab": rewritten,
    "positions": stretched,
    "ffn": widened,
    "heads": _refusing(
        "heads: query heads are neither added nor taken away; keep heads, and change kv_heads for a smaller cache"
    ),
    "features": _refusing("features of a head: heads are not cut anew; keep head_width (or width / heads) and value_width"),
    "experts": _refusing("experts: their number is not changed; start from the dense network, or keep experts"),
}
"""What a factor counts -> the rule of a change of its size; a rule refuses a change that it cannot make."""


@dataclass(frozen=True)
class AxisChange:
    """A rule applied to the factor `place` of dimension `dim`; `old` and `new`: all factors, with the rows in front first."""

    rule: ResizingRule
    dim: int
    place: int
    old: tuple[int, ...]
    new: tuple[int, ...]
    front: int
    """Rows that no factor counts: they are kept."""

    @property
    def words(self) -> str:
        return self.rule.words

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        x = given[0]
        front, rest = x.narrow(self.dim, 0, self.front), x.narrow(self.dim, self.front, x.shape[self.dim] - self.front)

        def unfolded() -> Tensor:
            whole = fresh[0]()
            return _unfolded(whole.narrow(self.dim, self.front, whole.shape[self.dim] - self.front), self.dim, self.new)

        made = self.rule(_unfolded(rest, self.dim, self.old), self.dim + self.place, unfolded)
        value = made.value.flatten(self.dim, self.dim + len(self.old) - 1).to(x.dtype)
        return [MadeWeight(torch.cat([front, value], self.dim), made.fate, made.error)]


def _unfolded(x: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
    """Dimension `dim` as its factors."""
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def axis_change(old: Weight, new: Weight, where: str, path: str, choices: TransformChoices) -> AxisChange | None:
    """The operation between two comparable weights; None if their factors are alike. `TransformError` if it is refused."""
    changes = [
        (dim, place, name, size, after)
        for (dim, place, name, size), (_, _, _, after) in zip(old.factors, new.factors, strict=True)
        if size != after
    ]
    for dim in range(len(old.axes)):
        if _front(old, dim) != _front(new, dim):
            raise TransformError(
                f"{where}: {_front(old, dim)} -> {_front(new, dim)} rows in front of the first; keep the offset"
            )
    rules = [RULES[name](Resized(where, path, size, after, writes=new.writes), choices) for _, _, name, size, after in changes]
    if not changes:
        return None
    if len(changes) > 1:
        both = " and ".join(f"{name} {size} -> {after}" for _, _, name, size, after in changes)
        raise TransformError(f"{where}: {both} at once; make one change after the other")
    ((dim, place, *_),) = changes
    sizes, sizes_after = (tuple(size for _, size in weight.axes[dim]) for weight in (old, new))
    return AxisChange(rules[0], dim, place, sizes, sizes_after, _front(old, dim))


def comparable(old: Weight, new: Weight) -> bool:
    """Whether both parts tell what their dimensions count, it is the same, and dimensions without factors are equal."""
    if not old.axes or list(map(_names, old.axes)) != list(map(_names, new.axes)):
        return False
    return all(axes or a == b for axes, a, b in zip(old.axes, old.shape, new.shape, strict=True))


def _front(weight: Weight, dim: int) -> int:
    """Rows that no factor counts."""
    return weight.shape[dim] - prod(size for _, size in weight.axes[dim]) if weight.axes[dim] else 0


def _names(dimension: Dimension) -> list[AxisName]:
    return [name for name, _ in dimension]
