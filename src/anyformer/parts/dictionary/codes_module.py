"""The modules of codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from anyformer.parts.counting import CountingModule
from anyformer.parts.dictionary.codes import BatchTopKCode, Code, GatedCode, JumpReLUCode, ReLUCode, TopKCode


class Active(NamedTuple):
    """`features` (..., F): f. `penalised` (..., F): what a penalty sums over features; None where there is none.
    `weighed`: whether it counts times the decoder's norms. `guess` (..., F): what the decoder as it stands should also
    reconstruct with; None of most codes."""

    features: Tensor
    penalised: Tensor | None = None
    weighed: bool = True
    guess: Tensor | None = None


class CodeModule(CountingModule):
    """Pre-activations (..., F) and the encoder's bias (F,) -> `Active`."""

    def __init__(self, code: Any, features: int) -> None:
        super().__init__()
        self.code: Any = code
        for name, weight in code.weights(features).items():
            self.register_parameter(name, nn.Parameter(torch.empty(weight.shape), requires_grad=weight.learnt))

    def extra_repr(self) -> str:
        return repr(self.code)

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        raise NotImplementedError


class ReLUCodeModule(CodeModule):
    """max(z, 0)."""

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        active_F = before_F.relu()
        return Active(active_F, active_F)


class TopKCodeModule(CodeModule):
    """The k largest, where they are positive."""

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        values, places = before_F.topk(self.code.k, dim=-1, sorted=False)
        return Active(torch.zeros_like(before_F).scatter(-1, places, values.relu()))


class BatchTopKCodeModule(CodeModule):
    """The k Z largest of a batch; above a threshold in evaluation."""

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        positive_F, threshold = before_F.relu(), self.get_parameter("threshold")
        if not self.training:
            return Active(torch.where(positive_F > threshold, positive_F, 0.0))
        flat = positive_F.flatten()
        vectors = flat.numel() // before_F.shape[-1]
        values, places = flat.topk(min(int(self.code.k * vectors), flat.numel()), sorted=False)
        if self.counting:
            with torch.no_grad():
                some = values > 0
                least = torch.where(some, values, torch.inf).amin().to(threshold.dtype)
                threshold.copy_(torch.where(some.any(), threshold.lerp(least, self.code.momentum), threshold))
        return Active(torch.zeros_like(flat).scatter(0, places, values).view_as(before_F))


class JumpReLUCodeModule(CodeModule):
    """z above a threshold, else 0; the threshold learns by straight-through gradients."""

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        stored_F, width = self.get_parameter("threshold"), self.code.bandwidth
        # Below 0 it counts as 0, and yet has a gradient.
        threshold_F = (stored_F + (stored_F.clamp(min=0) - stored_F).detach()).to(before_F.dtype)
        passed_F = (before_F > threshold_F).to(before_F.dtype)
        near_F = ((before_F - threshold_F).abs() < width / 2).to(before_F.dtype) / width
        # A difference of 0, whose gradient to the threshold is -1 times what it is multiplied by.
        moved_F = threshold_F.detach() - threshold_F
        jumped_F = before_F * passed_F.detach() + (threshold_F * near_F).detach() * moved_F
        return Active(jumped_F, passed_F.detach() + near_F.detach() * moved_F, weighed=False)


class GatedCodeModule(CodeModule):
    """A magnitude where the gate is open."""

    def forward(self, before_F: Tensor, bias_F: Tensor) -> Active:
        scale_F, shift_F = (self.get_parameter(name).to(before_F.dtype) for name in ("log_scale", "bias"))
        size_F = ((before_F - bias_F) * scale_F.exp() + shift_F).relu()
        open_F = before_F.relu()
        return Active(torch.where(before_F > 0, size_F, 0.0), open_F, guess=open_F)


CODES: Mapping[type[Code], type[CodeModule]] = {
    ReLUCode: ReLUCodeModule,
    TopKCode: TopKCodeModule,
    BatchTopKCode: BatchTopKCodeModule,
    JumpReLUCode: JumpReLUCodeModule,
    GatedCode: GatedCodeModule,
}
