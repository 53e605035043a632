"""Heads of keys and values: fewer by pooling, more by copying."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Fresh, MadeWeight, judged, relative_error
from anyformer.transforming.resized import Resized


def regrouped(change: Resized, choices: TransformChoices) -> Pooled | Repeated:
    """The rule from K to K' key heads, one of which must divide the other."""
    if change.old % change.new == 0:
        return Pooled(change.old // change.new)
    if change.new % change.old == 0:
        return Repeated(change.new // change.old)
    raise TransformError(
        f"{change.where}: {change.old} -> {change.new} heads of keys and values: neither divides the other, so heads cannot be "
        f"averaged in equal groups or copied; take a divisor or a multiple of {change.old}"
    )


@dataclass(frozen=True)
class Pooled:
    """Each new head is the mean of `size` old ones that stand beside each other (Ainslie et al. 2023, arXiv 2305.13245).

    Query head h reads key head h // (H / K), so that query heads stay with the group that holds their old key head. Exact where
    the heads of a group are equal; the error is that of every old head replaced by its group's mean.
    """

    size: int

    @property
    def words(self) -> str:
        return f"the mean of every {self.size} heads"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        mean = x.double().unflatten(dim, (-1, self.size)).mean(dim + 1)  # type: ignore[no-untyped-call]
        return judged(mean.to(x.dtype), relative_error(mean.repeat_interleave(self.size, dim), x))


@dataclass(frozen=True)
class Repeated:
    """Every head `times` times: each query head finds the key head that it had, so nothing changes."""

    times: int

    @property
    def words(self) -> str:
        return f"every head {self.times} times"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.repeat_interleave(self.times, dim), "copied")
