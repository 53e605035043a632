"""Masks: which keys a query may look at, as one value closed under `&` and `|`.

Each mask speaks twice. `allowed` is the predicate (query position, key position) -> bool on tensors, from which the kernel's
mask is made. `ranges` gives the same set as key ranges per query row, from which come the exact number of pairs, the
size of a ring cache and the picture, without ever writing a (T, S) matrix. Tests hold the two against each other.

Padding and document boundaries are run-time data, not description: the context adds them to every mask.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from anyformer.parts.mask_value import MaskValue
from anyformer.parts.ranges import Integers, Ranges
from anyformer.parts.sparse_mask import BlockWindow, Chunk, Fixed, GlobalTokens, Strided, VerticalStride
from anyformer.tally import Limit


class Causal(MaskValue):
    """Each query sees itself and what came before: key <= query."""

    kind: Literal["causal"] = "causal"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return key <= query

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), query + 1, keys)


class Bidirectional(MaskValue):
    """Each query sees every key."""

    kind: Literal["bidirectional"] = "bidirectional"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key == key) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), np.full_like(query, keys), keys)

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

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(query - self.size + 1, query + self.after + 1, keys)

    @property
    def ahead(self) -> bool:
        return self.after > 0

    @property
    def span(self) -> int:
        return self.size + self.after

    @property
    def reach(self) -> int | None:
        return self.size


class Prefix(MaskValue):
    """Each query sees the row's prefix: key < prefix, a run-time length. `Causal() | Prefix()`: a prefix language model."""

    kind: Literal["prefix"] = "prefix"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key < prefix) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), np.full_like(query, prefix), keys)

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (
            Limit("chunked", "positions of a bidirectional prefix see later ones, so the prefix must be computed in one piece"),
        )


class _Combined(MaskValue):
    """Shared by `&` and `|`."""

    sign: ClassVar[str]
    masks: tuple[Mask, ...] = Field(min_length=2)
    through: ClassVar[tuple[str, ...]] = ("masks",)

    def period(self, keys: int) -> int:
        return lcm(*(mask.period(keys) for mask in self.masks))

    @property
    def spelled(self) -> str:
        return self._joined(lambda mask: mask.spelled)

    @property
    def words(self) -> str:
        return self._joined(lambda mask: mask.words)

    def _joined(self, said: Callable[[MaskValue], str]) -> str:
        return f" {self.sign} ".join(f"({said(mask)})" if isinstance(mask, _Combined) else said(mask) for mask in self.masks)

    @property
    def span(self) -> int:
        return max(mask.span for mask in self.masks)

    @property
    def limits(self) -> tuple[Limit, ...]:
        inner = [limit for mask in self.masks for limit in mask.limits if limit.contract not in ("causal", "stepwise")]
        return (*super().limits, *dict.fromkeys(inner))


class AllOf(_Combined):
    """Keys that every mask allows: the `&` of masks."""

    sign: ClassVar[str] = "&"
    kind: Literal["all_of"] = "all_of"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        first, *rest = (mask.allowed(query, key, prefix) for mask in self.masks)
        for other in rest:
            first = first & other
        return first

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        first, *rest = (mask.ranges(query, keys, prefix) for mask in self.masks)
        for other in rest:
            first = first & other
        return first

    @property
    def ahead(self) -> bool:
        return all(mask.ahead for mask in self.masks)

    @property
    def reach(self) -> int | None:
        reaches = [mask.reach for mask in self.masks if mask.reach is not None]
        return min(reaches) if reaches else None

    @property
    def chunk(self) -> int | None:
        chunks = [mask.chunk for mask in self.masks if mask.chunk is not None]
        return min(chunks) if chunks else None


class AnyOf(_Combined):
    """Keys that at least one mask allows: the `|` of masks."""

    sign: ClassVar[str] = "|"
    kind: Literal["any_of"] = "any_of"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        first, *rest = (mask.allowed(query, key, prefix) for mask in self.masks)
        for other in rest:
            first = first | other
        return first

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        first, *rest = (mask.ranges(query, keys, prefix) for mask in self.masks)
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

    @property
    def chunk(self) -> int | None:
        first, *rest = (mask.chunk for mask in self.masks)
        return first if all(other == first for other in rest) else None


Mask = Annotated[
    Causal
    | Bidirectional
    | Window
    | Prefix
    | Chunk
    | Strided
    | Fixed
    | GlobalTokens
    | BlockWindow
    | VerticalStride
    | AllOf
    | AnyOf,
    Field(discriminator="kind"),
]

for _mask in (_Combined, AllOf, AnyOf):
    _mask.model_rebuild()
