"""Cross-attention: queries from this stack, keys and values from a source (the encoder's output)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from anyformer.describe import Count
from anyformer.operations import Limit, Shape, StateBytes, Tally, total
from anyformer.parts.attention.heads import Heads
from anyformer.parts.attention.heads_sketch import cross_sketch
from anyformer.parts.call.shared import SOURCE, Read
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch
from anyformer.parts.slot import HeadSizes
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.attention.cross_attention_module import CrossAttentionModule
    from anyformer.parts.call.state import CrossState


class CrossAttention(Heads):
    """Attention to another sequence: q = x W_q: (B, T, H, E); k, v = source W_k, source W_v: (B, S, K, E).

    Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.3. With `source_norm`, k, v = norm(source) W_k, norm(source) W_v.
    Every query sees every position of the source that is not padding. Keys and values are computed once per source.
    """

    kind: Literal["cross_attention"] = "cross_attention"
    source_norm: Norm | None = None
    """Norm of the source before keys and values, of this layer alone (Perceiver); an encoder that ends in a norm needs none."""
    source_width: Count | None = None
    """Features of the source, if not D."""

    if TYPE_CHECKING:  # a slot takes a part, None, or a tuple of these

        def __init__(self, *, heads: int, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _of_a_source(self) -> CrossAttention:
        if given := self.in_the_way("source"):
            raise ValueError(
                f"cross-attention reads a source, whose positions it does not know: leave {' and '.join(given)} out"
            )
        return self

    def source_features(self, width: int) -> int:
        return self.source_width or width

    def sizes(self, width: int) -> HeadSizes:
        return replace(super().sizes(width), source=self.source_width)

    def gathers(self, width: int) -> int | None:
        return None if self.in_the_way("divided positions") else 0

    @property
    def reads(self) -> tuple[Read, ...]:
        return (SOURCE,)

    def sketch(self, width: int) -> Sketch:
        facts = ("all of the source", *(word for part in self.parts if part is not self.weigh for word in part.words))
        return cross_sketch(self, width, facts, self.source_norm)

    def build(self, width: int, plan: Plan, name: str) -> CrossAttentionModule:
        from anyformer.parts.attention.cross_attention_module import CrossAttentionModule

        return CrossAttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        pairs, source_rows = shape.length * shape.source, 0 if shape.past else shape.batch * shape.source
        features = self.width_of_head(width) + self.width_of_value(width)
        held = shape.batch * self.groups * shape.source * features * plan.activation_bytes
        state = StateBytes(held, held if shape.past else 0, 0 if shape.past else held, self.groups)
        limit = Limit("packed", "cross-attention does not know which part of the source belongs to which document")
        limits = (limit, *(each for part in self.parts for each in part.limits))
        norm = (
            {} if self.source_norm is None else {"source_norm": self.source_norm.cost(self.source_features(width), source_rows)}
        )
        return (
            self.declared(width, shape, source_rows)
            + total(norm)
            + self.products(width, shape, pairs, pairs)
            + Tally(own_state=state, own_limits=limits)
        )

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> CrossState:
        """The source's keys and values: B * K * S * (E + U) elements."""
        import torch

        from anyformer.parts.call.state import CrossState

        key, value = (
            torch.zeros(batch, self.groups, source, features, dtype=dtype, device=device)
            for features in (self.width_of_head(width), self.width_of_value(width))
        )
        return CrossState(key, value)
