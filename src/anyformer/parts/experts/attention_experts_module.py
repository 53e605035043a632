"""The modules of mixture of attention heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.named_values_module import by_position, shown_to
from anyformer.parts.call.choices import ChoosesExperts
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


class AttentionExpertsModule(Attends, ChoosesExperts):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: AttentionExperts, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention.mask)
        self.attention, self.plan, self.name, self.chosen = attention, plan, name, attention.chosen
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
        of_router = context.inside("router")
        routing = self.router(x_BTD, of_router)
        own_ZJ = context.chosen(self.name, best(routing.preference, J))
        wanted_ZJ = of_router.see_rows("chosen", own_ZJ, x_BTD.shape[:2])
        placement = self.experts.placed(wanted_ZJ, a.experts)
        if context.auxiliary is not None:
            context.auxiliary.reports[self.name] = report(self.router, routing, placement.chosen, None, context)
        groups = placement.groups(whole=True)
        queries = placement.combine(self.experts.product("query", placement.dispatch(x_BTD.flatten(0, 1)), groups))
        queries = context.see("query", queries.view(B, T, J * K, E))
        q = context.rotated(queries, self.rotary).view(B, T, J, K, E)
        # The heads of all experts that read the same keys lie side by side.
        q = q.permute(0, 3, 2, 1, 4).reshape(B, K * J, T, E)
        k, v = (context.see(name, self.get_submodule(name)(x_BTD).view(B, T, K, E)) for name in ("key", "value"))
        k, v, keys = context.rotated(k, self.rotary).transpose(1, 2), v.transpose(1, 2), context.keys
        if state is not None:
            assert context.chunk is not None, "a stack with state enters its chunk first"
            k, v, keys = state.extend(k, v, context.chunk)
        shown = shown_to(context.opened)
        visible = self.visible(x_BTD, context, keys, banded=state is None and shown is None)
        how: dict[str, Any] = {"scale": a.scale_of_scores, "kernel": self.plan.attention, "shown": shown}
        mixed = by_position(attend(q, k.to(q.dtype), v.to(q.dtype), visible, **how), context)
        mixed = mixed.view(B, K, J, T, E).permute(0, 3, 2, 1, 4).reshape(B * T, J, K * E)
        outputs_ZJD = placement.combine(self.experts.product("output", placement.arrange(mixed), groups))
        outputs_ZJD = context.see_rows("expert_outputs", outputs_ZJD, x_BTD.shape[:2])
        weights_ZJ = self.router.weigh(routing, placement.chosen, None).to(x_BTD.dtype)
        weights_ZJ = of_router.see_rows("weights", weights_ZJ, x_BTD.shape[:2])
        return (outputs_ZJD * weights_ZJ[..., None]).sum(1).view(x_BTD.shape)
