"""Masks: the keys that a query may attend to, as one value closed under `&` and `|`.

Each mask has two forms, which the tests compare. `allowed` is the predicate (query position, key position) -> bool on tensors;
the kernel's mask is made from it. `ranges` gives the same set as key ranges per query; the exact number of pairs and the
picture come from them, without ever writing a (T, S) matrix.

Padding and document boundaries are run-time data, not description: the context adds them to every mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import lcm
from operator import and_, or_
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from anyformer.describe import Registry, Value, brief
from anyformer.operations import Limit, Shape
from anyformer.parts.masks.pairs import count_pairs
from anyformer.parts.masks.ranges import Integers, Ranges
from anyformer.parts.sketch import words

if TYPE_CHECKING:
    from torch import Tensor


ALL = 0
"""`Mask.past` of a mask that shows every position up to the query's own."""


class Mask(Value):
    """The base of masks; the defaults describe one with an unlimited window into the past and none into the future."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        """Whether a query at position `query` may see the key at position `key`; the three broadcast."""
        raise NotImplementedError

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        """The allowed keys of each query among positions 0 ... keys - 1."""
        raise NotImplementedError

    @property
    def looks_ahead(self) -> bool:
        """Whether a query may see later keys (outside the prefix)."""
        return False

    @property
    def window(self) -> int | None:
        """The number of latest positions that a query can see, its own included; None without limit."""
        return None

    @property
    def past(self) -> int | None:
        """The number of latest positions that a query sees, all of them and its own included, ALL for every one before it; None
        of a mask that shows others, or leaves some out."""
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
        """The least length that shows its pattern: its window, chunk or stride; 1 if every length does."""
        return self.window or self.repeats

    def period(self, keys: int) -> int:
        """`repeats` within a row of `keys` keys; 1 if the pattern does not repeat before the last one."""
        return self.repeats if self.repeats < keys else 1

    def cache_length(self, capacity: int) -> int:
        """The positions in the key-value cache of a sequence of `capacity` positions: no more than the window."""
        return capacity if self.window is None else min(self.window, capacity)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this mask breaks by its nature."""
        return (
            Limit.each(f"the mask '{self.kind}' lets a token see later ones", "causal", "stepwise") if self.looks_ahead else ()
        )

    @property
    def written(self) -> str:
        """Its expression in Python, in short: `causal & window(size=8)`."""
        return brief(self)

    @property
    def words(self) -> str:
        """Its description in words, for pictures: `window 1,024`."""
        kind, *facts = words(self).split(", ")
        return f"{kind} {facts[0].rpartition(' ')[2]}" if len(facts) == 1 else ", ".join([kind, *facts])

    def pairs(self, shape: Shape) -> int:
        """Allowed (query, key) pairs of one head of one row: `shape.length` queries after `shape.past` cached positions."""
        return count_pairs(self, shape.past, shape.keys, shape.prefix) + (0 if self.looks_ahead else shape.ahead)

    def pairs_at_most(self, most: int, shape: Shape) -> int:
        """Allowed pairs as in `pairs`, of which a query has no more than `most`."""
        return count_pairs(self, shape.past, shape.keys, shape.prefix, most)

    def counts(self, shape: Shape) -> Integers:
        """The number of keys that a query of one row sees, (T,); `pairs` is their sum."""
        return self.ranges(np.arange(shape.past, shape.keys, dtype=np.int64), shape.keys, shape.prefix).counts()

    def __and__(self, other: Mask) -> AllOf:
        return AllOf(masks=_members(self, AllOf) + _members(other, AllOf))

    def __or__(self, other: Mask) -> AnyOf:
        return AnyOf(masks=_members(self, AnyOf) + _members(other, AnyOf))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"&": and_, "|": or_}


class _Combined(Mask):
    """The base of `&` and `|`."""

    sign: ClassVar[str]
    masks: tuple[Mask, ...] = Field(min_length=2)
    through: ClassVar[tuple[str, ...]] = ("masks",)

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        return reduce(_OPERATORS[self.sign], (mask.allowed(query, key, prefix) for mask in self.masks))

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
        return reduce(_OPERATORS[self.sign], (mask.ranges(query, keys, prefix) for mask in self.masks))

    def period(self, keys: int) -> int:
        return lcm(*(mask.period(keys) for mask in self.masks))

    @property
    def written(self) -> str:
        return self._joined(lambda mask: mask.written)

    @property
    def words(self) -> str:
        return self._joined(lambda mask: mask.words)

    def _joined(self, text: Callable[[Mask], str], masks: Sequence[Mask] | None = None) -> str:
        shown = self.masks if masks is None else masks
        return f" {self.sign} ".join(f"({text(mask)})" if isinstance(mask, _Combined) else text(mask) for mask in shown)

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

    @property
    def words(self) -> str:
        """`causal` once: a causal window & causal is the window."""
        windows = any(mask.words.startswith("causal ") for mask in self.masks if not isinstance(mask, _Combined))
        said = [mask for mask in self.masks if mask.words != "causal" or not windows]
        return self._joined(lambda mask: mask.words, said)

    @property
    def looks_ahead(self) -> bool:
        return all(mask.looks_ahead for mask in self.masks)

    @property
    def window(self) -> int | None:
        # Compilers trace this, and know no `default` of `min`.
        windows = [mask.window for mask in self.masks if mask.window is not None]
        return min(windows) if windows else None

    @property
    def past(self) -> int | None:
        pasts = [mask.past for mask in self.masks]
        return None if None in pasts else min((past for past in pasts if past), default=ALL)

    @property
    def chunk(self) -> int | None:
        chunks = [mask.chunk for mask in self.masks if mask.chunk is not None]
        return min(chunks) if chunks else None


class AnyOf(_Combined):
    """Keys that at least one mask allows: the `|` of masks."""

    sign: ClassVar[str] = "|"
    kind: Literal["any_of"] = "any_of"

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
