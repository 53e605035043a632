"""What every mask offers: the predicate and the ranges, which tests hold against each other."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from torch import Tensor

from anyformer.describe import Value, brief
from anyformer.parts.pairs import count_pairs
from anyformer.parts.ranges import Integers, Ranges
from anyformer.parts.sketch import words
from anyformer.tally import Contract, Limit, Shape

if TYPE_CHECKING:
    from anyformer.parts.mask import AllOf, AnyOf, Mask


class MaskValue(Value):
    """What every mask offers; the defaults describe a mask that looks back without limit and never ahead."""

    def allowed(self, query: Tensor, key: Tensor, prefix: Tensor | int) -> Tensor:
        """Whether a query at position `query` may look at the key at position `key`; the three broadcast."""
        raise NotImplementedError

    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges:
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
    def chunk(self) -> int | None:
        """The size of chunks, counted from position 0, that no allowed pair leaves; None without such."""
        return None

    @property
    def repeats(self) -> int:
        """After how many positions what queries see, counted from themselves or from 0, is alike again."""
        return 1

    @property
    def span(self) -> int:
        """How many positions its pattern takes before it shows: its window, chunk or stride; 1 where every length shows it."""
        return 1

    def period(self, keys: int) -> int:
        """The same among so many keys: what repeats itself only after the last of them stands still."""
        return self.repeats if self.repeats < keys else 1

    def room(self, capacity: int) -> int:
        """How many positions a memory for `capacity` must hold: no more than a query can reach."""
        return capacity if self.reach is None else min(self.reach, capacity)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this mask breaks by its nature."""
        contracts: tuple[Contract, ...] = ("causal", "stepwise") if self.ahead else ()
        return tuple(Limit(contract, f"the mask '{self.kind}' lets a token see later ones") for contract in contracts)

    @property
    def spelled(self) -> str:
        """As it is written in Python, in short."""
        return brief(self)

    @property
    def words(self) -> str:
        """In words, for pictures: `window 1,024`."""
        kind, *facts = words(self).split(", ")
        return f"{kind} {facts[0].rpartition(' ')[2]}" if len(facts) == 1 else ", ".join([kind, *facts])

    kind: str

    def pairs(self, shape: Shape) -> int:
        """Allowed (query, key) pairs of one head of one row: `shape.length` queries after `shape.past` cached positions."""
        return _pairs(self, shape.past, shape.keys, shape.prefix)

    def __and__(self, other: MaskValue) -> AllOf:
        from anyformer.parts.mask import AllOf

        return AllOf(masks=_members(self, AllOf) + _members(other, AllOf))

    def __or__(self, other: MaskValue) -> AnyOf:
        from anyformer.parts.mask import AnyOf

        return AnyOf(masks=_members(self, AnyOf) + _members(other, AnyOf))


@lru_cache(maxsize=1024)
def _pairs(mask: MaskValue, past: int, keys: int, prefix: int) -> int:
    """Counted once for every mask and length: an architecture is priced again and again."""
    return count_pairs(mask, past, keys, prefix)


def _members(mask: MaskValue, kind: type[AllOf] | type[AnyOf]) -> tuple[Mask, ...]:
    """The masks that a combination of this kind joins, so that `a & b & c` is flat."""
    return mask.masks if isinstance(mask, kind) else (cast("Mask", mask),)
