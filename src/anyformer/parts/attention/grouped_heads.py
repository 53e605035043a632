"""The base of mixers whose heads of queries share fewer heads of keys and values."""

from __future__ import annotations

from pydantic import model_validator

from anyformer.describe import Count
from anyformer.parts.sublayer import Sublayer


class GroupedHeads(Sublayer):
    """Query head h reads the keys and values of h // (H / K)."""

    heads: Count
    """H, query heads."""
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H; H by default."""

    @model_validator(mode="after")
    def _grouped(self) -> GroupedHeads:
        if self.heads % self.groups:
            raise ValueError(f"kv_heads must divide heads, got kv_heads = {self.groups} and heads = {self.heads}")
        return self

    @property
    def groups(self) -> int:
        """K."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.groups
