"""The module of bottleneck layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.attention import Attention
from anyformer.parts.attention.attention_module import AttentionModule
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.call.context import Context
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState
from anyformer.parts.layers.bottleneck import ENTRANCES, Bottleneck
from anyformer.parts.slot import Side
from anyformer.plan import Plan


class _OfTwoInputs(AttentionModule):
    """(B, T, P + D), what queries and keys read and what values read -> (B, T, P)."""

    def __init__(self, attention: Attention, narrow: int, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention, narrow, plan, name, **attention.told)
        self.narrow = narrow
        self.value = nn.Linear(width, self.sizes.features("value"), bias="value" in attention.project.bias)

    def read(self, side: Side, call: AttentionCall) -> Tensor:
        return call.x[..., self.narrow :] if side == "value" else call.x[..., : self.narrow]


class BottleneckModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: Bottleneck, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        P, count = part.width, part.networks
        self.narrow, self.shared = (nn.Linear(width, P, bias=part.bias) for _ in ENTRANCES)
        self.attention = _OfTwoInputs(part.attention, P, width, plan, f"{name}.attention")
        self.networks = nn.ModuleList(part.network.build(P, plan, f"{name}.networks.{i}") for i in range(count))
        self.widen = nn.Linear(P, width, bias=part.bias)
        places = (*ENTRANCES, "attention", *(f"network_{i}" for i in range(count)))
        self.norms = nn.ModuleDict({place: part.norm.build(P) if part.norm else nn.Identity() for place in places})

    def forward(self, x_BTD: Tensor, context: Context, state: FullState | RingState | None = None) -> Tensor:
        h_BTP = self.norms["narrow"](self.narrow(x_BTD))
        both = torch.cat([self.norms["shared"](self.shared(x_BTD)), x_BTD], -1)
        h_BTP = self.norms["attention"](h_BTP + self.attention(both, context.inside("attention"), state))
        for i, network in enumerate(self.networks):
            h_BTP = self.norms[f"network_{i}"](h_BTP + network(h_BTP, context.inside(f"networks[{i}]")))
        return self.widen(h_BTP)  # type: ignore[no-any-return]
