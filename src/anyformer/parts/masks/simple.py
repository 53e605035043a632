"""The masks of every decoder and encoder: causal, bidirectional, a sliding window, a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from anyformer.describe import Count
from anyformer.operations import Limit
from anyformer.parts.masks.mask import ALL, Mask
from anyformer.parts.masks.ranges import Integers, Ranges
from anyformer.parts.sketch import number

if TYPE_CHECKING:
    from torch import Tensor


class Causal(Mask):
    """Each query sees itself and earlier keys: key <= query."""

    kind: Literal["causal"] = "causal"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return key <= query

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), query + 1, keys)

    @property
    def past(self) -> int:
        return ALL


class Bidirectional(Mask):
    """Each query sees every key."""

    kind: Literal["bidirectional"] = "bidirectional"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key == key) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), np.full_like(query, keys), keys)

    @property
    def looks_ahead(self) -> bool:
        return True


class Window(Mask):
    """A sliding window: query - size < key <= query + after. `size` includes the query (Hugging Face's sliding_window)."""

    kind: Literal["window"] = "window"
    size: Count
    after: Annotated[int, Field(ge=0)] = 0

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key > query - self.size) & (key <= query + self.after)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(query - self.size + 1, query + self.after + 1, keys)

    @property
    def looks_ahead(self) -> bool:
        return self.after > 0

    @property
    def words(self) -> str:
        size = number(self.size)
        return f"window {size}, {number(self.after)} more after" if self.after else f"causal window {size}"

    @property
    def span(self) -> int:
        return self.size + self.after

    @property
    def window(self) -> int | None:
        return self.size

    @property
    def past(self) -> int | None:
        return None if self.after else self.size


class Prefix(Mask):
    """Each query sees the row's prefix: key < prefix, a run-time length. `Causal() | Prefix()`: a prefix language model."""

    kind: Literal["prefix"] = "prefix"

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return (key < prefix) & (query == query)

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return Ranges.plain(np.zeros_like(query), np.full_like(query, prefix), keys)

    @property
    def limits(self) -> tuple[Limit, ...]:
        reason = "positions of a bidirectional prefix see later ones, so the prefix must be computed in one piece"
        return (Limit("chunked", reason),)
