"""The base of linear attentions over heads: projections, and heads laid out for a recurrence."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Self

from anyformer.describe import Count
from anyformer.operations import Dimension, Tally, Watchables, matrix, value
from anyformer.parts.attention.named_values import put_out_seen
from anyformer.parts.attention.projection import PROJECTIONS, Projected
from anyformer.parts.sublayer import Resizing, Sublayer, each_once, head_width


class SizedHeads(Sublayer):
    """Heads that divide the width of the stream among them, or have one of their own."""

    kind: str
    heads: Count
    """H, query heads."""
    head_width: Count | None = None
    """E, features of a head; D / H by default."""

    def width_of_head(self, width: int) -> int:
        """E."""
        return head_width(width, self.heads, self.head_width)

    @property
    def resizing(self) -> Resizing:
        return Resizing(self.heads if self.head_width is None else 1)

    def resolved(self, width: int) -> Self:
        return self.but(head_width=self.width_of_head(width))

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        self.width_of_head(width)


class RecurrentHeads(SizedHeads):
    """The heads of a linear attention: their number, width and biases."""

    bias: Annotated[tuple[Projected, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    @property
    def groups(self) -> int:
        """K, heads of keys and values."""
        return self.heads

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.groups

    def watchable(self, width: int) -> Watchables:
        E, (H, K) = self.width_of_head(width), (self.heads, self.groups)
        key, mixed = value("BTKE", "keys", K=K, E=E), value("BTHE", "what each head read of its state", H=H, E=E)
        projected = {"query": value("BTHE", "queries", H=H, E=E), "key": key, "value": replace(key, about="values")}
        return projected | self.state_seen(width) | {"mixed": mixed} | put_out_seen((H, E), width)

    def state_seen(self, width: int) -> Watchables:
        """The state behind a call, as it is seen."""
        raise NotImplementedError

    def projections(self, width: int, rows: int) -> Tally:
        """Weights and products of the four projections."""
        E = self.width_of_head(width)
        H, K, bias = self.heads * E, self.groups * E, self.bias
        queries: Dimension = (("heads", self.heads), ("features", E))
        keys: Dimension = (("kv_heads", self.groups), ("features", E))
        parts = matrix("query", width, H, rows, role="column", bias="query" in bias, outputs_as=queries)
        parts += matrix("key", width, K, rows, role="column", bias="key" in bias, outputs_as=keys)
        parts += matrix("value", width, K, rows, role="column", bias="value" in bias, outputs_as=keys)
        output = "output" in bias
        return parts + matrix("output", H, width, rows, role="row", bias=output, fill="residual", inputs_as=queries)
