"""Self-attention: multi-head, multi-query and grouped-query, with any head width."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.parts.context import Context, Labelled
from anyformer.parts.heads import Heads, HeadsModule
from anyformer.parts.mask import Causal, Mask
from anyformer.parts.mask_value import MaskValue
from anyformer.parts.rotary import Rotary
from anyformer.parts.state import FullState, RingState
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally


class Attention(Heads):
    """Self-attention: softmax(q k^T * scale where mask) v, heads side by side, then the output projection.

    q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E); query head h reads kv head h // (H / K). Multi-head:
    Vaswani et al. 2017 (arXiv 1706.03762), multi-query: Shazeer 2019 (1911.02150), grouped: Ainslie et al. 2023 (2305.13245).
    The papers' d_model is D, d_k and d_v are E, h is H.
    """

    reads_source: ClassVar[bool] = False
    kind: Literal["attention"] = "attention"
    mask: Mask = Causal()
    """Which positions a query may look at."""
    rotary: Rotary | None = None

    def check(self, width: int) -> None:
        """Refuse what only the width reveals."""
        E = self.width_of_head(width)
        if self.rotary is not None:
            self.rotary.rotated(E)

    def build(self, width: int, plan: Plan, name: str) -> AttentionModule:
        return AttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        state = 2 * shape.batch * self.groups * self._room(shape.room) * self.width_of_head(width) * plan.activation_bytes
        return (
            self.projections(width, rows, rows)
            + self.products(width, shape, shape.length * shape.keys, self.mask.pairs(shape))
            + Tally(state_bytes={"": state}, limits=self.mask.limits)
        )

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FullState | RingState:
        """A ring where the mask forgets, else everything: 2 * B * K * min(window, C) * E elements."""
        room = self._room(capacity)
        key, value = (
            torch.zeros(batch, self.groups, room, self.width_of_head(width), dtype=dtype, device=device) for _ in range(2)
        )
        return FullState(key, value) if room == capacity else RingState(key, value)

    def _room(self, capacity: int) -> int:
        return capacity if self.mask.reach is None else min(self.mask.reach, capacity)


class AttentionModule(HeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: Attention, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention, width, plan, name)
        self.mask: Labelled[MaskValue] = Labelled(attention.mask, attention.mask.digest)
        self.rotary = Labelled.of(attention.rotary) if attention.rotary else None

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        q, k, v = self.queries(x_BTD), self.keys(x_BTD), self.values(x_BTD)
        if self.rotary is not None:
            table = context.rotary(self.rotary, self.head_width, q.dtype)
            q, k = self.rotary.value.rotate(q, table), self.rotary.value.rotate(k, table)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        keys = context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        return self.mix(q, k, v, context.visible(self.mask, keys), context)
