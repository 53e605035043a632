"""The modules of mixture of attention heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attends import Attends
from anyformer.parts.call.context import Context
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState
from anyformer.parts.experts.attention_experts import AttentionExperts
from anyformer.parts.experts.exchange import HoldsExperts
from anyformer.parts.experts.report import report
from anyformer.parts.experts.selection_module import best
from anyformer.plan import Plan


class HeadProjections(HoldsExperts):
    """The projections of the heads of all experts."""

    def __init__(self, attention: AttentionExperts, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(attention.experts, attention.features, width))
        self.output = nn.Parameter(torch.empty(attention.experts, width, attention.features))


class AttentionExpertsModule(Attends):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: AttentionExperts, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention.mask)
        self.attention, self.plan, self.name = attention, plan, name
        self.router = attention.router.build(attention.experts, attention.chosen, width, name)
        self.experts = HeadProjections(attention, width)
        self.key = nn.Linear(width, attention.features, bias=False)
        self.value = nn.Linear(width, attention.features, bias=False)
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None

    def extra_repr(self) -> str:
        a = self.attention
        return f"experts={a.experts}, chosen={a.chosen}, kv_heads={a.kv_heads}, head_width={a.head_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        a = self.attention
        (B, T, _), J, K, E = x_BTD.shape, a.chosen, a.kv_heads, a.head_width
        routing = self.router(x_BTD, context)
        placement = self.experts.placed(best(routing.preference, J), a.experts)
        if context.auxiliary is not None:
            context.auxiliary.reports[self.name] = report(self.router, routing, placement.chosen, None, context)
        groups = placement.groups(whole=True)
        queries = placement.combine(self.experts.product("query", placement.dispatch(x_BTD.flatten(0, 1)), groups))
        q = context.rotated(queries.view(B, T, J * K, E), self.rotary).view(B, T, J, K, E)
        # The heads of all experts that read the same keys lie side by side.
        q = q.permute(0, 3, 2, 1, 4).reshape(B, K * J, T, E)
        k = context.rotated(self.key(x_BTD).view(B, T, K, E), self.rotary).transpose(1, 2)
        v, keys = self.value(x_BTD).view(B, T, K, E).transpose(1, 2), context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        visible = self.visible(x_BTD, context, keys, banded=state is None)
        mixed = attend(q, k.to(q.dtype), v.to(q.dtype), visible, scale=a.scale_of_scores, kernel=self.plan.attention)
        mixed = mixed.view(B, K, J, T, E).permute(0, 3, 2, 1, 4).reshape(B * T, J, K * E)
        outputs_ZJD = placement.combine(self.experts.product("output", placement.arrange(mixed), groups))
        weights_ZJ = self.router.weigh(routing, placement.chosen, None).to(x_BTD.dtype)
        return (outputs_ZJD * weights_ZJ[..., None]).sum(1).view(x_BTD.shape)
