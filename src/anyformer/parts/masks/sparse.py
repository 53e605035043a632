"""Sparse masks: chunks, strides, summaries, global tokens and blocks. Combine them with `Causal()` for a decoder.

The patterns of the Sparse Transformer (Child et al. 2019, arXiv 1904.10509, section 4.2) for a stride l:

    strided: Window(size=l) | Causal() & Strided(stride=l)
    fixed:   Causal() & (Chunk(size=l) | Fixed(size=l, summary=c))

A dilated window (Longformer) is Window(size=n * d) & Strided(stride=d).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.ranges import Integers, Ranges

if TYPE_CHECKING:
    from torch import Tensor


class Chunk(Mask):
    """Queries and keys of the same chunk: floor(key / size) = floor(query / size) (Llama 4's local layers)."""

    kind: Literal["chunk"] = "chunk"
    size: Count

    @property
    def repeats(self) -> int:
        return self.size

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return query // self.size == key // self.size

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        start = query // self.size * self.size
        return Ranges.plain(start, start + self.size, keys)

    @property
    def looks_ahead(self) -> bool:
        return self.size > 1

    @property
    def window(self) -> int | None:
        return self.size

    @property
    def chunk(self) -> int | None:
        return self.size


class _Pattern(Mask):
    """The base of patterns of keys on both sides of a query."""

    @property
    def looks_ahead(self) -> bool:
        return True


class Strided(_Pattern):
    """Keys at whole multiples of the stride from the query: (query - key) mod stride = 0."""

    kind: Literal["strided"] = "strided"
    stride: Annotated[int, Field(ge=2)]

    @property
    def repeats(self) -> int:
        return self.stride

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        # A remainder of each position is far cheaper than one of each pair.
        return query % self.stride == key % self.stride

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.strided(keys, query % self.stride, self.stride)


class Fixed(_Pattern):
    """The last `summary` positions of every chunk of `size`: key mod size >= size - summary. The paper's c is `summary`."""

    kind: Literal["fixed"] = "fixed"
    size: Annotated[int, Field(ge=2)]
    summary: Count = 1

    @model_validator(mode="after")
    def _summary_is_smaller(self) -> Fixed:
        if self.summary >= self.size:
            raise ValueError(f"summary must be smaller than size, got summary = {self.summary} and size = {self.size}")
        return self

    @property
    def repeats(self) -> int:
        return self.size

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key % self.size >= self.size - self.summary) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.strided(keys, np.full_like(query, self.size - self.summary), self.size, self.summary)


class GlobalTokens(_Pattern):
    """The first `count` positions see all and are seen by all (Longformer, Beltagy et al. 2020, arXiv 2004.05150)."""

    kind: Literal["global_tokens"] = "global_tokens"
    count: Count

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key < self.count) | (query < self.count)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        ranges = Ranges.plain(np.zeros_like(query), np.where(query < self.count, keys, self.count), keys)
        return replace(ranges, edges=(np.full_like(query, self.count),))

    @property
    def span(self) -> int:
        return self.count


class BlockWindow(Mask):
    """A window of whole blocks: 0 <= floor(query / block) - floor(key / block) < count (the local part of Phi-3-small)."""

    kind: Literal["block_window"] = "block_window"
    block: Count
    count: Count

    @property
    def repeats(self) -> int:
        return self.block

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        back = query // self.block - key // self.block
        return (back >= 0) & (back < self.count)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        first = query // self.block
        return Ranges.plain((first - self.count + 1) * self.block, (first + 1) * self.block, keys)

    @property
    def looks_ahead(self) -> bool:
        return self.block > 1

    @property
    def window(self) -> int | None:
        return self.block * self.count


class VerticalStride(_Pattern):
    """Every `stride`-th block of keys: (floor(key / block) + 1) mod stride = 0 (the vertical part of Phi-3-small)."""

    kind: Literal["vertical_stride"] = "vertical_stride"
    block: Count
    stride: Annotated[int, Field(ge=2)]

    @property
    def repeats(self) -> int:
        return self.block * self.stride

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return ((key // self.block + 1) % self.stride == 0) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        phase = np.full_like(query, self.block * (self.stride - 1))
        return Ranges.strided(keys, phase, self.block * self.stride, self.block)
