"""The base description of attentions over heads: their sizes, and the slots project, score, weigh and combine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm
from typing import ClassVar, Self

from pydantic import model_validator

from anyformer.describe import Count, DescriptionError, PartSet, Problem
from anyformer.operations import Dimension, Shape, Tally, Watchables, value
from anyformer.parts.attention.grouped_heads import GroupedHeads
from anyformer.parts.attention.named_values import heads_seen
from anyformer.parts.attention.pair_work import pair_work
from anyformer.parts.attention.projection import Projection
from anyformer.parts.attention.score import Score
from anyformer.parts.attention.slots import Combine
from anyformer.parts.attention.weigh import Softmax, Weigh
from anyformer.parts.parametrisation import Parametrisation
from anyformer.parts.slot import HeadSizes, SlotPart, Way
from anyformer.parts.sublayer import Resizing, Sublayer, Traits, head_width


class Heads(GroupedHeads):
    """The base of attentions over heads: their number and widths, and what they are made of, slot by slot."""

    through: ClassVar[tuple[str, ...]] = ("project", "score", "weigh", "combine")
    kv_heads: Count | None = None
    """K, heads of keys and values, a divisor of H: H is multi-head (the default), 1 multi-query, between grouped-query."""
    head_width: Count | None = None
    """E, features of a head; D / H by default."""
    value_width: Count | None = None
    """U, features of a value head; E by default (MiMo-V2: 128 beside 192)."""
    project: Projection = Projection()
    """How queries, keys and values are made."""
    score: Score = Score()
    """How keys are scored, per query."""
    weigh: Weigh = Softmax()
    """How scores become weights of the values."""
    combine: PartSet[Combine] = PartSet()
    """What is done with the mixed heads before the output projection."""

    @model_validator(mode="after")
    def _own_values(self) -> Heads:
        if self.project.values == "keys" and self.value_width is not None:
            raise ValueError("value_width needs values = 'own': here the keys are the values")
        return self

    @property
    def parts(self) -> Iterator[SlotPart]:
        """What stands in its slots, in the order of the forward pass."""
        yield self.project
        yield from self.project.adjust.values()
        yield self.score
        yield from self.score.terms.values()
        yield self.weigh
        yield from self.combine.values()

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        """The names of what keeps it from being treated in a way."""
        return tuple(name for part in self.parts for name in part.in_the_way(way))

    @property
    def sharers(self) -> int | None:
        counts = [count for part in self.project.adjust.values() if (count := part.sharers) is not None]
        return min(counts, default=None)

    @property
    def traits(self) -> Traits:
        return Traits(stability=tuple(part.technique for part in self.parts if part.technique is not None))

    def width_of_head(self, width: int) -> int:
        """E."""
        return head_width(width, self.heads, self.head_width)

    def width_of_value(self, width: int) -> int:
        """U."""
        return self.width_of_head(width) if self.value_width is None else self.value_width

    @property
    def own_keys(self) -> bool:
        """Whether keys and values are this layer's own."""
        return True

    def sizes(self, width: int) -> HeadSizes:
        """Its sizes at D = `width`."""
        E, U = self.width_of_head(width), self.width_of_value(width)
        return HeadSizes(
            width, self.project.inputs(width), self.heads, self.groups, E, U, self.scale_of(width),
            self.weigh.mixed(self.heads, U), self.own_keys, self.project.values == "own", self.project.counts,
        )  # fmt: skip

    @property
    def resizing(self) -> Resizing:
        return Resizing(lcm(self.heads if self.head_width is None else 1, *self.project.counts.values()))

    def resolved(self, width: int) -> Self:
        return self.but(head_width=self.width_of_head(width), kv_heads=self.groups)

    def read_by_output(self, width: int) -> tuple[int, int]:
        """The number and the width of the heads that the output projection reads side by side."""
        sizes = self.sizes(width)
        heads = sizes.mixed
        for part in self.combine.values():
            heads = part.heads(heads, sizes)
        return heads

    def scale_of(self, width: int) -> float:
        """The factor of the scores."""
        return self.score.of_width(self.width_of_head(width))

    def scaled(self, scale: float) -> Self:
        """This attention with another factor of its scores."""
        return self.but(score=self.score.but(scale=scale))

    def scaled_as(self, base: Sublayer, width: int, base_width: int) -> Self:
        assert isinstance(base, Heads), "the same sublayer at another width"
        E, narrow = self.width_of_head(width), base.width_of_head(base_width)
        return self if narrow == E else self.scaled(base.scale_of(base_width) * narrow / E)

    def at_unit_scale(self, width: int, rules: Parametrisation) -> tuple[Self, float]:
        E, given = self.width_of_head(width), self.score.scale
        if given is not None:
            raise DescriptionError([Problem("scale", f"is {given:g}, and u-muP gives scores their factor: leave it out")])
        normed = any(part.normalises for part in self.combine.values())
        return self.scaled(rules.score_scale(E)), 1.0 if normed else rules.averaged(E)

    def of_layer(self, layer: int, depth: int) -> Self:
        weigh = self.weigh.of_layer(layer, depth)
        return self if weigh is self.weigh else self.but(weigh=weigh)

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        sizes = self.sizes(width)
        heads, features = self.read_by_output(width)
        self.project.check_groups(sizes, heads * features)
        for part in self.parts:
            part.check(sizes)

    def narrowed(self, width: int, ways: int) -> Self | None:
        """This attention with 1 / `ways` of its heads; one head of keys and values stays whole. None: heads are not apart."""
        if self.in_the_way("divided heads") or self.heads % ways or (self.groups > 1 and self.groups % ways):
            return None
        return self.but(
            heads=self.heads // ways, kv_heads=max(1, self.groups // ways), head_width=self.width_of_head(width),
            score=self.score.but(scale=self.scale_of(width)),
        )  # fmt: skip

    def declared(self, width: int, shape: Shape, key_rows: int) -> Tally:
        """Weights and work of its slots, but for the products of queries with keys and of weights with values."""
        sizes = self.sizes(width)
        heads, features = self.read_by_output(width)
        of_heads = heads * features == self.heads * sizes.value_width
        mixed: Dimension = (("heads", self.heads), ("features", sizes.value_width)) if of_heads else ()
        parts = self.project.products(sizes, shape.rows, key_rows, heads * features, mixed)
        return sum((part.cost(sizes, shape, key_rows) for part in self.parts), parts)

    def watchable(self, width: int) -> Watchables:
        return self.seen(width, "S")

    def seen(self, width: int, keys: str, *, placed: bool = False) -> Watchables:
        """The values that are seen, in the order computed; `keys`: the letter of the positions of its own keys; `placed`:
        whether positions turn queries and keys."""
        sizes = self.sizes(width)
        E, U = sizes.head_width, sizes.value_width
        query, key = value("BTHE", "queries", H=sizes.heads, E=E), value(f"B{keys}KE", "keys", K=sizes.groups, E=E)
        found = {"query": query}
        if sizes.own_keys:
            found |= {"key": key, "value": value(f"B{keys}KU", "values", K=sizes.groups, U=U)}
        if placed:
            found |= {"placed_query": replace(query, about="queries by their positions, as they are scored")}
            found |= {"placed_key": replace(key, about="keys by their positions")} if sizes.own_keys else {}
        return found | self.weigh.watchable(sizes.heads) | heads_seen(sizes.mixed, self.read_by_output(width), width)

    def products(self, width: int, shape: Shape, pairs: int, exact: int) -> Tally:
        """Scores, weights and mixing over `pairs` (query, key) pairs per head and row, `exact` of them allowed by the mask."""
        E, (_, features) = self.width_of_head(width), self.weigh.mixed(self.heads, self.width_of_value(width))
        more = self.weigh.of_pairs(self.sizes(width), shape, pairs)
        return pair_work(shape, self.heads, E, features, pairs, exact, self.weigh.each) + more
