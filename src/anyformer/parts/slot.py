"""The protocol of what stands in a slot of attention: project, place, score, weigh, combine, and what it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from anyformer.describe import Value
from anyformer.operations import Limit, Shape, Tally
from anyformer.parts.sketch import Cell

Side = Literal["query", "key", "value"]
Way = Literal[
    "bands", "chosen keys", "divided heads", "divided positions", "pairs of heads", "source", "two inputs", "outside", "layout",
    "latent",
]  # fmt: skip
"""A way of treating attention: by bands of keys, over keys that are chosen per query, by processes that divide heads or
positions, with heads that are mixed in pairs, over a source, with values made of other inputs than queries and keys, by a
kernel from outside that is given queries, keys and values; and of treating its weights: as those of plain heads, as those of
attention through a latent."""


@dataclass(frozen=True)
class HeadSizes:
    """The sizes of an attention over heads at one width."""

    width: int
    """D."""
    inputs: int
    """Features that queries, and self-attention's keys and values, are projected from."""
    heads: int
    """H."""
    groups: int
    """K."""
    head_width: int
    """E."""
    value_width: int
    """U."""
    scale: float
    """Factor of the scores."""
    mixed: tuple[int, int]
    """The number and the width of the heads that attention mixes."""
    own_keys: bool = True
    """Whether keys and values are this layer's own."""
    own_values: bool = True
    """Whether values have a projection of their own."""
    projection_groups: Mapping[str, int] = field(default_factory=dict)
    """Projection -> groups of its features."""
    source: int | None = None
    """Features that keys and values are projected from where they are not `inputs`: those of a source."""

    def read(self, side: Side) -> int:
        """Features that queries, keys or values are projected from."""
        return self.inputs if side == "query" or self.source is None else self.source

    def features(self, side: Side) -> int:
        """Features of the queries, keys or values of a position."""
        return self.count(side) * (self.value_width if side == "value" else self.head_width)

    def count(self, side: Side) -> int:
        """H or K."""
        return self.heads if side == "query" else self.groups

    @property
    def projected(self) -> tuple[Side, ...]:
        """The sides that this layer projects."""
        if not self.own_keys:
            return ("query",)
        return ("query", "key", "value") if self.own_values else ("query", "key")


class SlotPart(Value):
    """The base of the parts of attention's slots; by default a part does nothing and is in nobody's way."""

    name: ClassVar[str]
    rules_out: ClassVar[frozenset[Way]] = frozenset()
    """The ways of computing that its mathematics, or what is built for it, do not allow."""
    needs_own_keys: ClassVar[bool] = False
    """Whether it works on keys and values of this layer, which one that reads another layer's has not."""

    @property
    def words(self) -> tuple[str, ...]:
        """What it does in words, for pictures."""
        return ()

    @property
    def cell(self) -> Cell | None:
        """Its cell in pictures, where it has one of its own."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands below the title of a picture."""
        return ()

    @property
    def technique(self) -> str | None:
        """Its name among the techniques for stable training."""
        return None

    @property
    def position(self) -> str | None:
        """Its name among the ways of telling positions apart."""
        return None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that it breaks by its mathematics."""
        return ()

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        """The names of what keeps attention with this part from being computed in a way; none where it can be."""
        return (self.name,) if way in self.rules_out else ()

    def check(self, sizes: HeadSizes) -> None:
        """Refuse sizes that do not fit."""

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        """Its weights, by their names in the attention, and its work; `key_rows`: rows of which keys and values are made."""
        return Tally()

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        """Modules, parameters and constants, by the names that they get as attributes of the attention."""
        return {}
