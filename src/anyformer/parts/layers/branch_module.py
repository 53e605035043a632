"""The module of branches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.branch_state import opened
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout, DropPath
from anyformer.parts.call.opened import check_whole
from anyformer.parts.call.state import State
from anyformer.parts.embedding.condition import CONDITION
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.modulation_module import applied
from anyformer.parts.layers.spread import Crossing, through
from anyformer.plan import Plan


class BranchModule(nn.Module):
    """(B, T, D) -> (B, T, D), to be added to the stream."""

    def __init__(self, branch: Branch, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.branch, self.name = branch, name
        self.multiplier, self.scaling = branch.multiplier, branch.gain
        self.norm_before = branch.norm_before.build(width) if branch.norm_before else nn.Identity()
        self.sublayer = branch.sublayer.build(width, plan, f"{name}.sublayer")
        self.modulation = branch.modulation.build(width) if branch.modulation else None
        self.output_bias = nn.Parameter(torch.empty(width)) if branch.output_bias else None
        self.residual_convolution = branch.residual_convolution.build(width) if branch.residual_convolution else None
        self.norm_after = branch.norm_after.build(width) if branch.norm_after else nn.Identity()
        self.gain = nn.Parameter(torch.empty(branch.gain.weight(width).shape)) if branch.gain else None
        self.dropout = Dropout(branch.dropout, f"{name}.dropout")
        self.drop_path = DropPath(branch.drop_path, f"{name}.drop_path")
        self.crossing: Crossing | None = None

    def forward(self, x_BTD: Tensor, context: Context, state: State | None) -> Tensor:
        check_whole(context.opened, self.crossing)
        gates: list[Tensor] = []
        x_BTD = context.normed(self.norm_before, x_BTD, "norm_before")
        if self.modulation is not None:
            shift_B1D, scale_B1D, *gates = self.modulation(context.shared[None, CONDITION])
            x_BTD = applied(x_BTD, shift_B1D, scale_B1D)
        x_BTD = context.see("input", x_BTD) if self.branch.sublayer.reads_stream else x_BTD
        inner, recent = opened(state)
        y_BTD = through(self.sublayer, x_BTD, context, self.crossing, inner)
        y_BTD = context.see("sublayer.output", y_BTD)
        y_BTD = y_BTD if self.output_bias is None else y_BTD + self.output_bias.to(y_BTD.dtype)
        y_BTD = y_BTD if self.residual_convolution is None else self.residual_convolution(y_BTD, context, recent)
        y_BTD = context.normed(self.norm_after, y_BTD, "norm_after")
        for gate_B1D in gates:
            y_BTD = y_BTD * gate_B1D.to(y_BTD.dtype)
        y_BTD = self.dropout(y_BTD, context.noise)
        if self.scaling is not None:
            assert self.gain is not None, "built with its gain"
            y_BTD = self.scaling.scaled(y_BTD, self.gain)
        if self.multiplier != 1.0:
            y_BTD = y_BTD * self.multiplier
        return context.see("output", self.drop_path(y_BTD, context.noise))
