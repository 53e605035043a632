"""The modules of attention residuals in a loop."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.attention_residuals_module import AttentionResidualsEnds, DepthAttention, DepthStep, written
from anyformer.parts.layers.looped_residuals import LoopedResiduals
from anyformer.parts.sublayer import Inputs


class LoopedStep(DepthStep):
    """What a step reads of the values (B, T, N, D), in later passes with messages of the pass before, one for each side."""

    def __init__(self, streams: LoopedResiduals, width: int, own: int, inputs: Inputs = None) -> None:
        super().__init__(streams, width, own, inputs)
        self.slots, self.place = list(streams.read_slots(own)), streams.slot(own // streams.block)
        self.first, self.looped = streams.slot(streams.before), streams.looped
        self.starts, self.sides = own == streams.before * streams.block, 3 if inputs else 1
        loops = streams.loops(own)
        self.message = DepthAttention(streams, width, self.sides) if loops else None
        self.gates = nn.ModuleList(streams.gate.build(width) for _ in range(self.sides if loops else 0))

    def entered(self, x_BTND: Tensor, turn: int) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        behind = self.first + self.looped
        if turn and self.starts:
            current = x_BTND[:, :, self.first : behind]
            others = x_BTND[:, :, : self.first], x_BTND[:, :, behind + self.looped :]
            x_BTND = torch.cat([others[0], torch.zeros_like(current), current, others[1]], 2)
        read = self.mixed(torch.stack([x_BTND[:, :, slot] for slot in self.slots], 2))
        if turn and self.message is not None:
            read = read if len(read) == self.sides else read * self.sides
            messages = self.message.mixed(x_BTND[:, :, behind : behind + self.looped])
            read = tuple(gate(h, m) for gate, h, m in zip(self.gates, read, messages, strict=True))
        return read, x_BTND, written(x_BTND, self.place)


class LoopedResidualsEnds(AttentionResidualsEnds):
    """The same, without what the pass before left."""

    def __init__(self, streams: LoopedResiduals, width: int) -> None:
        super().__init__(streams, width)
        first = streams.slot(streams.before) + streams.looped
        self.aside = slice(first, first + streams.looped)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        kept = torch.cat([x_BTND[:, :, : self.aside.start], x_BTND[:, :, self.aside.stop :]], 2)
        return super().leaving(kept)
