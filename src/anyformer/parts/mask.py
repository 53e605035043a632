"""Masks: which keys a query may look at, as one value closed under `&` and `|`.

Each mask speaks twice. `allowed` is the predicate (query position, key position) -> bool on tensors, from which the kernel's
mask is made. `intervals` gives the same set as key ranges per query row, from which come the exact number of pairs, the
size of a ring cache and the picture, without ever writing a (T, S) matrix. Tests hold the two against each other.

Padding and document boundaries are run-time data, not description: the context adds them to every mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.tally import Limit, Shape


@dataclass(frozen=True)
class Intervals:
    """Half-open key ranges per query: `start`, `stop` (T, n), disjoint and ascending within a row; empty where equal."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @property
    def pairs(self) -> int:
        """How many (query, key) pairs the ranges hold."""
        return int((self.stop - self.start).sum())

    def __and__(self, other: Intervals) -> Intervals:
        start = np.maximum(self.start[:, :, None], other.start[:, None, :])
        stop = np.minimum(self.stop[:, :, None], other.stop[:, None, :])
        rows = len(start)
        return _tidy(start.reshape(rows, -1), stop.reshape(rows, -1))

    def __or__(self, other: Intervals) -> Intervals:
        return _tidy(np.concatenate([self.start, other.start], 1), np.concatenate([self.stop, other.stop], 1))


def _tidy(start: NDArray[np.int64], stop: NDArray[np.int64]) -> Intervals:
    """Sort each row's ranges and cut what an earlier one already covers."""
    stop = np.maximum(start, stop)
    order = np.argsort(start, axis=1, kind="stable")
    start, stop = np.take_along_axis(start, order, 1), np.take_along_axis(stop, order, 1)
    covered = np.maximum.accumulate(stop, axis=1)
    start[:, 1:] = np.maximum(start[:, 1:], covered[:, :-1])
    keep = (start < stop).any(axis=0)
    return Intervals(start[:, keep], np.maximum(start, stop)[:, keep])


class MaskValue(Value):
    """What every mask offers; the defaults describe a mask that looks back without limit and never ahead."""

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        """Whether a query at position `query` may look at the key at position `key`; the three broadcast."""
        raise NotImplementedError

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        """The allowed keys of each query among positions 0 ... keys - 1."""
        raise NotImplementedError

    @property
    def ahead(self) -> bool:
        """Whether a query may look at keys after it (outside the prefix)."""
        return False

    @property
    def reach(self) -> int | None:
        """How many of the latest positions, itself included, a query can see; None without limit."""
        return None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this mask breaks by its nature."""
        return (Limit("causal", f"the mask '{self.kind}' lets a token see later ones"),) if self.ahead else ()

    kind: str

    def pairs(self, shape: Shape) -> int:
        """Allowed (query, key) pairs of one head of one row: `shape.length` queries after `shape.past` cached positions."""
        query = np.arange(shape.past, shape.keys, dtype=np.int64)
        return self.intervals(query, shape.keys, shape.prefix).pairs

    def __and__(self, other: MaskValue) -> AllOf:
        return AllOf(masks=_members(self, AllOf) + _members(other, AllOf))

    def __or__(self, other: MaskValue) -> AnyOf:
        return AnyOf(masks=_members(self, AnyOf) + _members(other, AnyOf))


def _members(mask: MaskValue, kind: type[AllOf] | type[AnyOf]) -> tuple[Mask, ...]:
    """The masks that a combination of this kind joins, so that `a & b & c` is flat."""
    return mask.masks if isinstance(mask, kind) else (cast("Mask", mask),)


def _range(start: NDArray[np.int64], stop: NDArray[np.int64], keys: int) -> Intervals:
    start, stop = np.clip(start, 0, keys), np.clip(stop, 0, keys)
    return Intervals(start[:, None], np.maximum(start, stop)[:, None])


class Causal(MaskValue):
    """Each query sees itself and what came before: key <= query."""

    kind: Literal["causal"] = "causal"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return key <= query

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        return _range(np.zeros_like(query), query + 1, keys)


class Bidirectional(MaskValue):
    """Each query sees every key."""

    kind: Literal["bidirectional"] = "bidirectional"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key == key) & (query == query)

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        return _range(np.zeros_like(query), np.full_like(query, keys), keys)

    @property
    def ahead(self) -> bool:
        return True


class Window(MaskValue):
    """A sliding window: query - size < key <= query + after. `size` counts the query itself (Hugging Face's sliding_window)."""

    kind: Literal["window"] = "window"
    size: Annotated[int, Field(ge=1)]
    after: Annotated[int, Field(ge=0)] = 0

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key > query - self.size) & (key <= query + self.after)

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        return _range(query - self.size + 1, query + self.after + 1, keys)

    @property
    def ahead(self) -> bool:
        return self.after > 0

    @property
    def reach(self) -> int | None:
        return self.size


class Prefix(MaskValue):
    """Each query sees the row's prefix: key < prefix, a run-time length. `Causal() | Prefix()`: a prefix language model."""

    kind: Literal["prefix"] = "prefix"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key < prefix) & (query == query)

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        return _range(np.zeros_like(query), np.full_like(query, prefix), keys)

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (
            Limit("chunked", "positions of a bidirectional prefix see later ones, so the prefix must be computed in one piece"),
        )


class _Combined(MaskValue):
    """Shared by `&` and `|`."""

    masks: tuple[Mask, ...] = Field(min_length=2)
    through: ClassVar[tuple[str, ...]] = ("masks",)

    @property
    def limits(self) -> tuple[Limit, ...]:
        inner = [limit for mask in self.masks for limit in mask.limits if limit.contract != "causal"]
        return (*super().limits, *dict.fromkeys(inner))


class AllOf(_Combined):
    """Keys that every mask allows: the `&` of masks."""

    kind: Literal["all_of"] = "all_of"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        first, *rest = (mask.allowed(query, key, prefix) for mask in self.masks)
        for other in rest:
            first = first & other
        return first

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        first, *rest = (mask.intervals(query, keys, prefix) for mask in self.masks)
        for other in rest:
            first = first & other
        return first

    @property
    def ahead(self) -> bool:
        return all(mask.ahead for mask in self.masks)

    @property
    def reach(self) -> int | None:
        return min((mask.reach for mask in self.masks if mask.reach is not None), default=None)


class AnyOf(_Combined):
    """Keys that at least one mask allows: the `|` of masks."""

    kind: Literal["any_of"] = "any_of"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        first, *rest = (mask.allowed(query, key, prefix) for mask in self.masks)
        for other in rest:
            first = first | other
        return first

    def intervals(self, query: NDArray[np.int64], keys: int, prefix: int = 0) -> Intervals:
        first, *rest = (mask.intervals(query, keys, prefix) for mask in self.masks)
        for other in rest:
            first = first | other
        return first

    @property
    def ahead(self) -> bool:
        return any(mask.ahead for mask in self.masks)

    @property
    def reach(self) -> int | None:
        reaches = [mask.reach for mask in self.masks]
        return None if None in reaches else max(reach for reach in reaches if reach is not None)


Mask = Annotated[Causal | Bidirectional | Window | Prefix | AllOf | AnyOf, Field(discriminator="kind")]

for _mask in (_Combined, AllOf, AnyOf):
    _mask.model_rebuild()
