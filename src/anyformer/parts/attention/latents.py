"""Latent arrays: a few learned vectors that read a long input, so that the cost of later layers does not grow with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from anyformer.describe import Count
from anyformer.operations import Limit, Shape, Tally, Watchables, Weight, inside, total, value
from anyformer.parts.attention.cross_attention import CrossAttention
from anyformer.parts.positions.absolute import Position
from anyformer.parts.sketch import Cell, Drawn, Sketch, chain, number
from anyformer.parts.sublayer import Resizing, Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.attention.latents_module import InducedAttentionModule, LatentsModule


class Latents(Drawn):
    """T learned vectors, (T, D), that the decoder transforms instead of tokens (Perceiver, Jaegle et al. 2021, 2103.03206).

    The decoder's blocks read the input by cross-attention and then one another by self-attention.
    """

    count: Count
    """T."""
    position: Position | None = None
    """Absolute positions, added to the input."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("Learned latent array", (f"{self.count:,} × {number(width)}",))

    def check(self, width: int) -> None:
        if self.position is not None:
            if self.position.limits:
                raise ValueError(
                    f"latents.position: {self.position.kind} reads neighbours, and the input of latents is read position by "
                    f"position: use a table or sinusoids"
                )
            self.position.check(width)

    def build(self, width: int) -> LatentsModule:
        from anyformer.parts.attention.latents_module import LatentsModule

        return LatentsModule(self, width)

    def cost(self, width: int) -> Tally:
        table = Tally({"weight": Weight((self.count, width), "replicate", "embedding")})
        return table + (total({"position": self.position.cost(width, 0)}) if self.position else Tally())


class InducedAttention(Sublayer):
    """Self-attention through m learned points: h = attention(points, x), y = attention(x, h), both (B, ., D).

    Set Transformer's induced set attention (Lee et al. 2019, arXiv 1810.00825, section 3.1): linear in T. `attention`
    describes both attentions; the residuals, norms and feed-forward network that the paper puts inside are the block's.
    """

    kind: Literal["induced_attention"] = "induced_attention"
    points: Count
    """m."""
    attention: CrossAttention

    @property
    def traits(self) -> Traits:
        return Traits("induced")

    def sketch(self, width: int) -> Sketch:
        inner = self.attention.sketch(width)
        both = f"{inner.title.lower()}, {self.attention.heads} heads"
        flow = chain(Cell(f"{self.points} learned points read x", "mix"), Cell("x reads the points", "mix"))
        return Sketch("Induced attention", (both,), flow)

    @property
    def resizing(self) -> Resizing:
        return self.attention.resizing

    @property
    def sharers(self) -> int | None:
        return self.attention.sharers

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(attention=self.attention.of_layer(layer, depth))

    def check(self, width: int) -> None:
        if self.attention.source_width is not None:
            raise ValueError("attention.source_width: the points have as many features as the stream: leave it out")
        self.attention.check(width)

    def watchable(self, width: int) -> Watchables:
        of_each = self.attention.watchable(width)
        points = value("BnD", "the points, behind their reading of x", n=self.points, D=width)
        return {**inside("gather", of_each), "points": points, **inside("scatter", of_each)}

    def build(self, width: int, plan: Plan, name: str) -> InducedAttentionModule:
        from anyformer.parts.attention.latents_module import InducedAttentionModule

        return InducedAttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        gather = self.attention.cost(width, Shape(batch=shape.batch, length=self.points, source=shape.length), plan)
        scatter = self.attention.cost(width, Shape(batch=shape.batch, length=shape.length, source=self.points), plan)
        both = total({"gather": gather, "scatter": scatter}).without("state", "limits")
        reason = "every position is read through points that have read all positions"
        limits = Limit.each(reason, "causal", "stepwise", "chunked", "cached", "packed")
        points = {"points": Weight((self.points, width), "replicate", "embedding")}
        return both + Tally(points, own_limits=limits)
