"""Mixture of attention heads: experts that are projections of queries and outputs, around keys and values of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from anyformer.describe import Count, Positive
from anyformer.operations import (
    Dimension,
    ExpertProduct,
    Limit,
    Shape,
    StateBytes,
    Tally,
    Watchables,
    Weight,
    inside,
    matrix,
    total,
    value,
)
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.heads_sketch import heads_cell, rotary_cell
from anyformer.parts.attention.named_values import pairs_seen
from anyformer.parts.attention.pair_work import pair_work
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.derived import of_width
from anyformer.parts.experts.router import Router
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Routed, Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.ring_state import RingState
    from anyformer.parts.call.state import FullState
    from anyformer.parts.experts.attention_experts_module import AttentionExpertsModule


class AttentionExperts(Sublayer):
    """Mixture of attention heads (MoA): each token's queries come from the k of X experts that its router chose.

        y = sum over the chosen e of weight_e * softmax(x Q_e k^T * scale where mask) v W_e

    Q: (X, K E, D), W: (X, D, K E), stacked; k, v = x W_k, x W_v: (B, T, K, E), which all experts share: head h of an expert
    reads kv head h (Zhang et al. 2022, arXiv 2210.05144, one head each; Shen et al. 2024, arXiv 2404.07413, JetMoE). The
    paper's N is X, its k `chosen`, its d_h E.
    """

    kind: Literal["attention_experts"] = "attention_experts"
    experts: Count
    """X."""
    chosen: Count
    """k, experts that a token passes."""
    kv_heads: Count
    """K, heads of keys and values, and of each expert."""
    head_width: Annotated[int, Field(ge=1)]
    """E, features of a head."""
    router: Router = Router(over="chosen")
    scale: Positive | None = None
    """Factor of the scores; E^-0.5 by default."""
    rotary: Rotary | None = None
    mask: Mask = Causal()

    @model_validator(mode="after")
    def _makes_sense(self) -> AttentionExperts:
        if self.chosen > self.experts:
            raise ValueError(f"chosen must be at most experts, got chosen = {self.chosen} and experts = {self.experts}")
        self.router.choice.check(self.experts, self.chosen)
        return self

    def check(self, width: int) -> None:
        if self.rotary is not None:
            self.rotary.rotated(self.head_width)

    @property
    def features(self) -> int:
        """K E."""
        return self.kv_heads * self.head_width

    @property
    def scale_of_scores(self) -> float:
        """The factor of the scores."""
        return self.head_width**-0.5 if self.scale is None else self.scale

    def resolved(self, width: int) -> Self:
        router = self.router.but(multiplier=of_width(self.router.multiplier, width))
        return self.but(scale=self.scale_of_scores, router=router)

    def routed(self, width: int, tokens: int) -> tuple[Routed, ...]:
        # Rows travel once for queries, and once for outputs.
        return (Routed(tokens * self.chosen, self.experts, width + self.features),) * 2

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,) if self.router.choice.reads_tokens else ()

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (self.mask,)

    @property
    def traits(self) -> Traits:
        return Traits("MoA", "NoPE" if self.rotary is None else "RoPE")

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that this attention breaks by its mathematics."""
        return (*self.mask.limits, *(self.rotary.limits if self.rotary else ()))

    def sketch(self, width: int) -> Sketch:
        rule = f"router: {self.router.score.replace('_', ' ')}", f"{self.chosen} of {self.experts}", self.router.choice.words
        router = Cell(", ".join(filter(None, rule)), "choice")
        query, key, value = (heads_cell(name, self.kv_heads, self.head_width) for name in "QKV")
        queries = Cell(f"{self.experts} × {query.text}", count=self.experts, used=self.chosen)
        output = Cell(f"{self.experts} × output {number(width)}", count=self.experts, used=self.chosen)
        read = fan(chain(fan(chain(router, queries), key), rotary_cell(self.rotary)), value)
        return Sketch("Mixture of attention heads", (), chain(read, Cell(f"softmax · {self.mask.words}", "mix"), output))

    def build(self, width: int, plan: Plan, name: str) -> AttentionExpertsModule:
        from anyformer.parts.experts.attention_experts_module import AttentionExpertsModule

        return AttentionExpertsModule(self, width, plan, name)

    def watchable(self, width: int) -> Watchables:
        J, K, E = self.chosen, self.kv_heads, self.head_width
        key = value("BTKE", "keys", K=K, E=E)
        heads = value("BTHE", "the heads of the experts chosen, one's side by side", H=J * K, E=E)
        return {
            **inside("router", self.router.watchable(self.experts, J)),
            "query": heads,
            "key": key,
            "value": replace(key, about="values"),
            **pairs_seen(J * K),
            "mixed": replace(heads, about="the values that each head mixed, those that read the same keys side by side"),
            "expert_outputs": value("BTJD", "the outputs of the experts chosen, without their weights", J=J, D=width),
        }

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        X, J, K, E, rows = self.experts, self.chosen, self.kv_heads, self.head_width, shape.rows
        inside: Dimension = (("kv_heads", K), ("features", E))
        stacked: Dimension = (("experts", X),)
        limit = self.router.choice.limit
        experts = Tally(
            {
                "query": Weight((X, K * E, width), "expert", "matrix", J, axes=(stacked, inside, ())),
                "output": Weight((X, width, K * E), "expert", "residual", J, axes=(stacked, (), inside), writes=True),
            },
            {
                "query": ExpertProduct(rows * J, rows * J, width, K * E, X, J, False, *limit, sent=True),
                "output": ExpertProduct(rows * J, rows * J, K * E, width, X, J, True, *limit, sent=True),
            },
        )
        parts = total({"experts": experts}) + self.router.cost(X, self.chosen, width, rows)
        for name in ("key", "value"):
            parts += matrix(name, width, K * E, rows, role="replicate", outputs_as=inside)
        parts += pair_work(shape, K * J, E, E, shape.length * shape.keys, self.mask.pairs(shape))
        if self.rotary is not None:
            parts += Tally(own_work={"rotary": rotated(rows * self.rotary.rotated(E) * K * (J + 1))})
        position = shape.batch * K * 2 * E * plan.activation_bytes
        held = position * self.mask.cache_length(shape.cache_length)
        return parts + Tally(own_state=StateBytes.of(shape, held, position * self.mask.pairs(shape)), own_limits=self.limits)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState:
        """B * K * min(window, C) * 2 E elements, whatever the number of experts."""
        from anyformer.parts.call.ring_state import empty_keys_and_values

        features, kept = (self.head_width, self.head_width), self.mask.cache_length(capacity)
        return empty_keys_and_values(batch, self.kv_heads, features, kept, capacity, dtype, device)
