"""Masks: which keys a query may look at, as one value closed under `&` and `|`.

Each mask speaks twice. `allowed` is the predicate (query position, key position) -> bool on tensors, from which the kernel's
mask is made. `ranges` gives the same set as key ranges per query row, from which come the exact number of pairs, the
size of a ring cache and the picture, without ever writing a (T, S) matrix. Tests hold the two against each other.

Padding and document boundaries are run-time data, not description: the context adds them to every mask.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import lcm
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from anyformer.describe import Registry, Value, brief
from anyformer.operations import Contract, Limit, Shape
from anyformer.parts.masks.pairs import count_pairs
from anyformer.parts.masks.ranges import Integers, Ranges
from anyformer.parts.sketch import words


class Mask(Value):
    """The base of masks; the defaults describe a mask that looks back without limit and never ahead."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        """Whether a query at position `query` may look at the key at position `key`; the three broadcast."""
        raise NotImplementedError

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        """The allowed keys of each query among positions 0 ... keys - 1."""
        raise NotImplementedError

    @property
    def looks_ahead(self) -> bool:
        """Whether a query may look at keys after it (outside the prefix)."""
        return False

    @property
    def window(self) -> int | None:
        """How many of the latest positions a query can see, its own included; None without limit."""
        return None

    @property
    def chunk(self) -> int | None:
        """The size of chunks, counted from position 0, within which all allowed pairs lie; None without chunks."""
        return None

    @property
    def repeats(self) -> int:
        """The period of the pattern: query t + period sees the same keys as query t, or these moved by the period."""
        return 1

    @property
    def span(self) -> int:
        """The least length that shows its pattern: its window, chunk or stride; 1 where every length does."""
        return 1

    def period(self, keys: int) -> int:
        """`repeats` among so many keys; 1 where the pattern does not repeat before the last of them."""
        return self.repeats if self.repeats < keys else 1

    def cache_length(self, capacity: int) -> int:
        """How many positions the key-value cache of a sequence of `capacity` keeps: no more than the window."""
        return capacity if self.window is None else min(self.window, capacity)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this mask breaks by its nature."""
        contracts: tuple[Contract, ...] = ("causal", "stepwise") if self.looks_ahead else ()
        return tuple(Limit(contract, f"the mask '{self.kind}' lets a token see later ones") for contract in contracts)

    @property
    def written(self) -> str:
        """As it is written in Python, in short."""
        return brief(self)

    @property
    def words(self) -> str:
        """In words, for pictures: `window 1,024`."""
        kind, *facts = words(self).split(", ")
        return f"{kind} {facts[0].rpartition(' ')[2]}" if len(facts) == 1 else ", ".join([kind, *facts])

    def pairs(self, shape: Shape) -> int:
        """Allowed (query, key) pairs of one head of one row: `shape.length` queries after `shape.past` cached positions."""
        return _pairs(self, shape.past, shape.keys, shape.prefix)

    def counts(self, shape: Shape) -> Integers:
        """How many keys each query of one row sees, (T,); `pairs` is their sum."""
        return self.ranges(np.arange(shape.past, shape.keys, dtype=np.int64), shape.keys, shape.prefix).counts()

    def __and__(self, other: Mask) -> AllOf:
        return AllOf(masks=_members(self, AllOf) + _members(other, AllOf))

    def __or__(self, other: Mask) -> AnyOf:
        return AnyOf(masks=_members(self, AnyOf) + _members(other, AnyOf))


@lru_cache(maxsize=1024)
def _pairs(mask: Mask, past: int, keys: int, prefix: int) -> int:
    """Counted once for every mask and length: an architecture is priced again and again."""
    return count_pairs(mask, past, keys, prefix)


class _Combined(Mask):
    """Shared by `&` and `|`."""

    sign: ClassVar[str]
    masks: tuple[Mask, ...] = Field(min_length=2)
    through: ClassVar[tuple[str, ...]] = ("masks",)

    def period(self, keys: int) -> int:
        return lcm(*(mask.period(keys) for mask in self.masks))

    @property
    def written(self) -> str:
        return self._joined(lambda mask: mask.written)

    @property
    def words(self) -> str:
        return self._joined(lambda mask: mask.words)

    def _joined(self, said: Callable[[Mask], str]) -> str:
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
    def looks_ahead(self) -> bool:
        return all(mask.looks_ahead for mask in self.masks)

    @property
    def window(self) -> int | None:
        windows = [mask.window for mask in self.masks if mask.window is not None]
        return min(windows) if windows else None

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
    def looks_ahead(self) -> bool:
        return any(mask.looks_ahead for mask in self.masks)

    @property
    def window(self) -> int | None:
        windows = [mask.window for mask in self.masks]
        return None if None in windows else max(window for window in windows if window is not None)

    @property
    def chunk(self) -> int | None:
        first, *rest = (mask.chunk for mask in self.masks)
        return first if all(other == first for other in rest) else None


def _members(mask: Mask, kind: type[AllOf] | type[AnyOf]) -> tuple[Mask, ...]:
    """The masks that a combination of this kind joins, so that `a & b & c` is flat."""
    return mask.masks if isinstance(mask, kind) else (mask,)
