"""Mixture of experts in a latent: the experts read and write fewer features than the stream has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, matrix, value
from anyformer.parts.experts.experts import Experts
from anyformer.parts.feedforward.feedforward import Projection
from anyformer.parts.layout import WeightLayout
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch, number
from anyformer.parts.sublayer import Routed
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.experts.latent_experts_module import LatentExpertsModule


class LatentExperts(Experts):
    """Experts of a latent of P features: z = x W_in, y = (sum over the chosen e of weight_e * FFN_e(z)) W_out.

    x, y: (B, T, D); z: (B, T, P); W_in: (P, D), W_out: (D, P); G, U: (X, F, P), W: (X, P, F) of the experts. The router, and
    the shared expert, read x; `norm` is one of z. Rows that travel to their experts have P features in the place of D, and an
    expert P / D of the parameters, for which there are more of them (Nemotron 3 Super, whose `moe_latent_size` is P).
    """

    kind: Literal["latent_experts"] = "latent_experts"  # type: ignore[assignment]
    latent: Count
    """P."""
    output_norm: Norm | None = None
    """Norm of what an expert gives, before its weight (Muse Spark)."""
    latent_bias: bool = False
    """Whether W_in and W_out add biases."""

    ends: ClassVar[tuple[str, str]] = ("latent_in", "latent_out")
    """The names of both projections."""

    @property
    def called(self) -> str:
        return "experts"

    def narrowed(self, width: int, ways: int) -> Self | None:
        # Every process would add the bias, and both projections stay whole.
        return None

    def routed(self, width: int, tokens: int) -> tuple[Routed, ...]:
        return super().routed(self.latent, tokens)

    def sides(self, projection: Projection, width: int) -> tuple[int, int]:
        return super().sides(projection, self.latent)

    def sketch(self, width: int) -> Sketch:
        made = super().sketch(width)
        return replace(made, facts=(*made.facts, f"{number(width)} → {number(self.latent)} → {number(width)}"))

    def layout(self, width: int) -> WeightLayout:
        made = super().layout(width)
        assert made.network is not None, "experts have a network"
        reason = "experts of a latent: describe them as experts of the stream"
        return replace(made, network=replace(made.network, unequal=(*made.network.unequal, reason)))

    def build(self, width: int, plan: Plan, name: str) -> LatentExpertsModule:
        from anyformer.parts.experts.latent_experts_module import LatentExpertsModule

        return LatentExpertsModule(self, width, plan, name)

    def watchable(self, width: int) -> Watchables:
        J, P = self.chosen, self.latent
        return {
            **super().watchable(width),
            "latent": value("BTP", "what the experts read, before its norm", P=P),
            "expert_outputs": value("BTJP", "the outputs of the experts chosen, without their weights", J=J, P=P),
        }

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        tokens, (into, out) = shape.batch * shape.length, self.ends
        made = super(LatentExperts, self.but(norm=None)).cost(width, shape, plan)
        # What the experts leave is a latent, and W_out alone writes to the stream.
        inside = {name: replace(each, writes=False) for name, each in made.own_weights.items()}
        inside |= {"down": replace(inside["down"], fill="matrix")}
        made = replace(made, own_weights=inside)
        made += matrix(into, width, self.latent, tokens, role="replicate", bias=self.latent_bias)
        made += matrix(out, self.latent, width, tokens, role="replicate", bias=self.latent_bias, fill="residual")
        if self.output_norm is not None:
            made += self.output_norm.cost(self.latent, tokens * self.chosen).within("output_norm")
        return made if self.norm is None else made + self.norm.cost(self.latent, tokens).within("latent_norm")
