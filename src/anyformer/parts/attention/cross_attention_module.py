"""The module of cross-attention."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.cross_attention import CrossAttention
from anyformer.parts.attention.heads_module import HeadsModule
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.slots_module import AttentionInputs
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import CrossState
from anyformer.plan import Plan


class CrossAttentionModule(HeadsModule):
    """(B, T, D) and the context's source (B, S, D) -> (B, T, D)."""

    def __init__(self, part: CrossAttention, width: int, plan: Plan, name: str) -> None:
        super().__init__(part, width, plan, name)
        self.source_norm = part.source_norm.build(part.source_features(width)) if part.source_norm else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context, state: CrossState | None = None) -> Tensor:
        call = AttentionCall(self, x_BTD, x_BTD, context)
        q = context.see("query", self.projected("query", x_BTD, call)).transpose(1, 2)
        if context.source is not None:
            source = self.source_norm(context.source)
            k, v = (x.transpose(1, 2) for x in self.keys_and_values(source, source, call))
            if state is not None:
                k, v = state.fill(k, v)
        else:
            assert state is not None, "without a source, cross-attention reads what an earlier call stored"
            k, v = state.key, state.value
        k, v = k.to(q.dtype), v.to(q.dtype)
        return self.finished(self.heads.weigh.attended(AttentionInputs(q, k, v, self.visible(x_BTD, context)), call), call)
