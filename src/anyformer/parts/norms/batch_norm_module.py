"""The modules of BatchNorm."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.parts.counting import CountingModule
from anyformer.parts.norms.batch_norm import BatchNorm


class BatchNormModule(CountingModule):
    """(..., D) -> (..., D)."""

    def __init__(self, norm: BatchNorm, width: int) -> None:
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(torch.empty(width)) if norm.gain != "none" else None
        self.bias = nn.Parameter(torch.empty(width)) if norm.bias else None
        self.running_mean = nn.Parameter(torch.empty(width), requires_grad=False)
        self.running_variance = nn.Parameter(torch.empty(width), requires_grad=False)

    def extra_repr(self) -> str:
        return repr(self.norm)

    @property
    def momentum(self) -> float:
        """The share of this batch's statistics in the running ones."""
        return self.norm.momentum if self.counts else 0.0

    def forward(self, x_D: Tensor) -> Tensor:
        y_ZD = nn.functional.batch_norm(
            x_D.flatten(0, -2).to(self.running_mean.dtype), self.running_mean, self.running_variance, self.gain, self.bias,
            self.training, self.momentum, self.norm.eps,
        )  # fmt: skip
        return y_ZD.view(x_D.shape).to(x_D.dtype)

    @property
    def gain(self) -> Tensor | None:
        """(D,)."""
        return None if self.weight is None else self.weight + (1 if self.norm.gain == "one_plus_weight" else 0)


class PositionBatchNormModule(BatchNormModule):
    """(B, ..., D) -> (B, ..., D); in training every element by the B elements at its place."""

    def forward(self, x_D: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x_D)
        if len(x_D) < 2:
            raise InputError(
                "BatchNorm with over = 'position' takes its statistics over the rows of a batch, and one row has none: train "
                "on at least 2 rows at once, or set over = 'batch'"
            )
        wide_D = x_D.to(self.running_mean.dtype)
        variance_D, mean_D = torch.var_mean(wide_D, 0, correction=0, keepdim=True)
        with torch.no_grad():
            unbiased = len(x_D) / (len(x_D) - 1)
            self.running_mean.lerp_(_over_places(mean_D), self.momentum)
            self.running_variance.lerp_(_over_places(variance_D) * unbiased, self.momentum)
        y_D = (wide_D - mean_D) * torch.rsqrt(variance_D + self.norm.eps)
        y_D = y_D if self.gain is None else y_D * self.gain
        return (y_D if self.bias is None else y_D + self.bias).to(x_D.dtype)


def _over_places(x_D: Tensor) -> Tensor:
    """The mean of (..., D) over all but the last dimension: (D,)."""
    return x_D.flatten(0, -2).mean(0)


MODULES: Mapping[str, type[BatchNormModule]] = {"batch": BatchNormModule, "position": PositionBatchNormModule}
