"""The modules of latent arrays."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from anyformer.parts.attention.latents import InducedAttention, Latents
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY
from anyformer.plan import Plan


class LatentsModule(nn.Module):
    """The array for B rows, (B, T, D), and the input with its positions, (B, S, D)."""

    def __init__(self, latents: Latents, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(latents.count, width))
        self.position = latents.position.build(width) if latents.position else None

    def forward(self, source_BSD: Tensor, positions_BS: Tensor) -> tuple[Tensor, Tensor]:
        if self.position is not None:
            source_BSD = source_BSD + self.position(positions_BS, source_BSD).to(source_BSD.dtype)
        return self.weight.to(source_BSD.dtype).expand(len(source_BSD), -1, -1), source_BSD


class InducedAttentionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: InducedAttention, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.empty(part.points, width))
        self.gather = part.attention.build(width, plan, f"{name}.gather")
        self.scatter = part.attention.build(width, plan, f"{name}.scatter")

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        padding = None if context.aligned else (context.positions == EMPTY).expand(len(x_BTD), -1)
        own = Context(context.positions, context.plan, noise=context.noise, turn=context.turn, opened=context.opened)
        reads = replace(own, source=x_BTD, source_padding=padding, _tables={})
        points_BSD = self.points.to(x_BTD.dtype).expand(len(x_BTD), -1, -1)
        h_BSD = context.see("points", self.gather(points_BSD, reads.inside("gather")))
        return self.scatter(x_BTD, replace(own, source=h_BSD, _tables={}).inside("scatter"))  # type: ignore[no-any-return]
