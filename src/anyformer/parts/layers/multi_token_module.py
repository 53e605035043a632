"""The modules of multi-token prediction."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.layers.multi_token import MultiToken, SequentialPrediction, Trunk
from anyformer.parts.layers.recompute import recomputed
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan


class PredictionsModule(nn.Module):
    """What the head reads per further token, k = 1 ... depth: (B, T - k, D)."""

    def __init__(self, part: MultiToken, width: int, stack: Stack, plan: Plan, name: str) -> None:
        super().__init__()
        blocks = (part.block_of(stack, k + 1) for k in range(part.depth))
        self.layers = nn.ModuleList(block.build(width, plan, f"{name}.layers.{i}") for i, block in enumerate(blocks))
        self.reads = (part.layer(stack).reads,) * part.depth
        self.checkpointing = plan.checkpointing

    def forward(self, trunk: Trunk) -> list[Tensor]:
        raise NotImplementedError

    def layer(self, i: int, x_BTD: Tensor, context: Context) -> Tensor:
        """The output of a layer, computed again in the backward pass where the plan says so."""
        if context.opened is not None:
            context = replace(context, opened=replace(context.opened, path="mtp")).inside(f"layer[{i}]")
        if self.checkpointing == "none" or not torch.is_grad_enabled():
            x_BTD = context.see("input", x_BTD)
            return context.see("output", self.layers[i](x_BTD, context, None))
        return recomputed(self.checkpointing, self.layers[i], x_BTD, context, self.reads[i])


class Entrance(nn.Module):
    """M [norm(x); norm(h)]: (B, T, D), (B, T, D) -> (B, T, D)."""

    def __init__(self, part: SequentialPrediction, width: int) -> None:
        super().__init__()
        self.embedding_norm, self.hidden_norm = part.norm.build(width), part.norm.build(width)
        self.projection = nn.Linear(2 * width, width, bias=part.bias)

    def forward(self, x_BTD: Tensor, h_BTD: Tensor) -> Tensor:
        return self.projection(torch.cat([self.embedding_norm(x_BTD), self.hidden_norm(h_BTD)], -1))  # type: ignore[no-any-return]


class Exit(nn.Module):
    """The norm before the head."""

    def __init__(self, part: SequentialPrediction, width: int) -> None:
        super().__init__()
        self.final_norm = part.norm.build(width)

    def forward(self, h_BTD: Tensor) -> Tensor:
        return self.final_norm(h_BTD)  # type: ignore[no-any-return]


class SequentialModule(PredictionsModule):
    """Each prediction reads the features of the one before."""

    def __init__(self, part: SequentialPrediction, width: int, stack: Stack, plan: Plan, name: str) -> None:
        super().__init__(part, width, stack, plan, name)
        self.entrances = nn.ModuleList(Entrance(part, width) for _ in range(part.depth))
        self.shared_norm = part.shared_norm
        self.exits = nn.ModuleList(nn.Identity() if part.shared_norm else Exit(part, width) for _ in range(part.depth))

    def forward(self, trunk: Trunk) -> list[Tensor]:
        h_BTD, made = trunk.features, []
        for i, (entrance, exit) in enumerate(zip(self.entrances, self.exits, strict=True)):
            x_BTD = entrance(trunk.embedded[:, i + 1 :], h_BTD[:, : h_BTD.shape[1] - 1])
            context = trunk.context.ahead(i + 1)
            if trunk.context.tokens is not None:
                context = replace(context, tokens=trunk.context.tokens[:, i + 1 :])
            h_BTD = self.layer(i, x_BTD, context)
            made.append(trunk.norm(h_BTD) if self.shared_norm else exit(h_BTD))
        return made
