"""Mixture of experts: many feed-forward networks, a few of which a token passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.operations import (
    Dimension,
    ExpertProduct,
    Operation,
    Shape,
    Tally,
    Watchables,
    Weight,
    inside,
    matrix,
    value,
)
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.derived import of_width
from anyformer.parts.experts.capacity import ExpertCapacity
from anyformer.parts.experts.router import Router
from anyformer.parts.experts.shared import SharedExpert
from anyformer.parts.feedforward.feedforward import PositionwiseNetwork, Projection
from anyformer.parts.layout import NetworkLayout, WeightLayout
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Network, Resizing, Routed
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.experts.experts_module import ExpertsModule


class Experts(PositionwiseNetwork):
    """Sparsely gated mixture of experts: each token passes the k of X feed-forward networks that its router chose.

        y = sum over the chosen e of weight_e * FFN_e(x), plus the shared expert; FFN_e(x) = (act(x G_e) * (x U_e)) W_e

    G, U: (X, F, D), W: (X, D, F), stacked; biases (X, F) or (X, D); weights (Z, J) from the `Router`, Z = B * T (Shazeer et
    al. 2017, arXiv 1701.06538). `weigh = "input"`: FFN_e(weight_e * x) instead (Llama 4). The papers' E or N is X, their
    top-k is `chosen`.
    Every token costs k experts, whatever the routing; a capacity that always holds costs all of its rows, padding included,
    and one that holds in training only costs no padding. With identity experts `dense` is the cost of tokens that choose none
    of them; `exact` and the parameters in use, of tokens that choose an even share.
    """

    kind: Literal["experts"] = "experts"
    experts: Count
    """X."""
    identity_experts: Annotated[int, Field(ge=0)] = 0
    """Further experts, numbered after the others, that return their input (LongCat-Flash, arXiv 2509.01322)."""
    chosen: Count
    """k, experts that a token passes."""
    norm: Norm | None = None
    """Norm of the experts' input; the router reads the input without it (Gemma 4)."""
    router: Router = Router()
    weigh: Literal["output", "input"] = "output"
    """Whether the weights multiply an expert's output or its input."""
    shared: SharedExpert | None = None
    capacity: ExpertCapacity | None = None
    """The most tokens per expert; without it, every expert takes all tokens that chose it."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Experts:
        if self.chosen > self.choices:
            raise ValueError(f"chosen must be at most experts, got chosen = {self.chosen} and experts = {self.choices}")
        if self.identity_experts and self.capacity is not None:
            raise ValueError("identity_experts cost nothing and take any number of tokens: leave capacity out")
        self.router.choice.check(self.choices, self.chosen)
        return self

    @property
    def sharers(self) -> int | None:
        return None if self.shared is None else self.shared.feedforward.sharers

    @property
    def resizing(self) -> Resizing:
        """The width of the shared expert changes in proportion."""
        shared = () if self.shared is None else ("shared.feedforward.width",)
        return Resizing(network=Network(self.width, self.gated, self.experts, self.chosen, ("width", *shared)))

    def resolved(self, width: int) -> Self:
        return self.but(router=self.router.but(multiplier=of_width(self.router.multiplier, width)))

    def narrowed(self, width: int, ways: int) -> Self | None:
        # Experts that return their input would be added by every process.
        if self.identity_experts or self.width % ways:
            return None
        if self.shared is None:
            return self.but(width=self.width // ways)
        feedforward = self.shared.feedforward.narrowed(width, ways)
        if feedforward is None:
            return None
        return self.but(width=self.width // ways, shared=self.shared.but(feedforward=feedforward))

    def routed(self, width: int, tokens: int) -> tuple[Routed, ...]:
        rows = round(tokens * self.chosen * self.computing)
        if self.capacity is not None and self.capacity.holds(training=True):
            rows = self.capacity.rows(tokens, self.experts, self.chosen)
        return (Routed(rows, self.experts, 2 * width),)

    def gathers(self, width: int) -> int | None:
        # A capacity gives places in the order of all tokens; penalties are means over them.
        if self.capacity is not None:
            return None
        return 0 if self.router.score == "equal" else self.choices

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,) if self.router.choice.reads_tokens else ()

    def sketch(self, width: int) -> Sketch:
        rule = f"router: {self.router.score.replace('_', ' ')}", f"{self.chosen} of {self.choices}", self.router.choice.words
        router = Cell(", ".join(filter(None, rule)), "choice")
        experts = Cell(f"{self.experts} × {self.title} {number(self.width)}", count=self.experts, used=self.chosen)
        identity = Cell(f"{self.identity_experts} × identity", count=self.identity_experts) if self.identity_experts else None
        routed = chain(router, fan(experts, identity))
        if self.shared is not None:
            gate = None if self.shared.gate is None else Cell(f"{self.shared.gate} gate", "pointwise")
            inner = self.shared.feedforward.width
            routed = fan(routed, chain(Cell(f"shared expert {number(inner)}"), gate), join="+")
        capacity = () if self.capacity is None else (self.capacity.words,)
        return Sketch(f"Mixture of {self.choices} experts", (*self.facts, *capacity), routed)

    def layout(self, width: int) -> WeightLayout:
        names = {name: name for name in self.projections} | {f"{name}_bias": f"{name}_bias" for name in self.bias}
        reasons = {
            "experts that return their input: set identity_experts = 0": self.identity_experts > 0,
            "a norm of the experts' input: leave norm out": self.norm is not None,
            "weights that multiply an expert's input: set weigh = 'output'": self.weigh != "output",
            "experts that turn tokens away: leave capacity out": self.capacity is not None
            and self.capacity.holds(training=False),
        }
        if (rule := self.router.uneven) is not None:
            reasons[rule] = True
        shared, own = self.shared, {} if self.shared is None else self.shared.feedforward.names("shared.")
        if shared is not None and shared.feedforward.function != self.function:
            reasons["a shared expert of another function: give it the fields of the experts"] = True
        if shared is not None and shared.join != "sum":
            reasons["half of the experts and half of the shared expert: set shared.join = 'sum'"] = True
        network = NetworkLayout(
            self.width, self.function, names, experts=self.experts,
            unequal=tuple(reason for reason, holds in reasons.items() if holds),
            shared=own, shared_width=None if shared is None else shared.feedforward.width,
        )  # fmt: skip
        return WeightLayout(network, speaks="experts that return their input" if self.identity_experts else None)

    @property
    def choices(self) -> int:
        """The number of experts that the router chooses among, identity experts included."""
        return self.experts + self.identity_experts

    @property
    def computing(self) -> float:
        """The share of a token's choices that fall on experts that compute, if each is chosen equally often."""
        return self.experts / self.choices

    def sides(self, projection: Projection, width: int) -> tuple[int, int]:
        """(outputs, inputs) of a projection."""
        return (width, self.width) if projection == "down" else (self.width, width)

    def build(self, width: int, plan: Plan, name: str) -> ExpertsModule:
        from anyformer.parts.experts.experts_module import ExpertsModule

        return ExpertsModule(self, width, plan, name)

    def watchable(self, width: int) -> Watchables:
        J, F = self.chosen, self.width
        shared = {} if self.shared is None else inside("shared", self.shared.feedforward.watchable(width))
        return {
            **inside("router", self.router.watchable(self.choices, J)),
            "hidden": value("BTJF", "what the down projections of the experts chosen read", written_out=True, J=J, F=F),
            "expert_outputs": value("BTJD", "the outputs of the experts chosen, without their weights", J=J, D=width),
            "mixed": value("BTD", "their weighted sum", D=width),
            **shared,
        }

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        tokens = shape.batch * shape.length
        routed = computed = tokens * self.chosen
        if self.capacity is not None and self.capacity.holds(training=False):
            computed = self.capacity.rows(tokens, self.experts, self.chosen)
        exact = min(round(routed * self.computing), computed)
        used = max(round(self.chosen * self.computing), 1)
        work: dict[str, Operation] = {}
        weights: dict[str, Weight] = {}
        for name in self.projections:
            sides = outputs, inputs = self.sides(name, width)
            fill: Literal["residual", "matrix"] = "residual" if name == "down" else "matrix"
            within: Dimension = (("ffn", self.width),)
            counted: tuple[Dimension, ...] = (("experts", self.experts),), *(((), within) if name == "down" else (within, ()))
            weights[name] = Weight((self.experts, *sides), "expert", fill, used, axes=counted, writes=name == "down")
            ends, limit = fill == "residual", self.router.choice.limit
            work[name] = ExpertProduct(computed, exact, inputs, outputs, self.experts, used, ends, *limit, sent=name == "up")
            if name in self.bias:
                weights[f"{name}_bias"] = Weight(
                    (self.experts, sides[0]), "expert", "zeros", used, axes=counted[:2], writes=name == "down"
                )
        limits = self.capacity.limits if self.capacity is not None else ()
        parts = Tally(weights, work, own_limits=limits)
        parts += ACTIVATIONS[self.activation].cost(self.width, exact, gated=self.gated).within("activation")
        parts += self.router.cost(self.choices, self.chosen, width, tokens)
        if self.norm is not None:
            parts += self.norm.cost(width, tokens).within("norm")
        if self.shared is not None:
            parts += self.shared.feedforward.cost(width, shape, plan).within("shared")
            if self.shared.gate is not None:
                parts += matrix("shared_gate", width, 1, tokens, role="replicate")
        return parts
