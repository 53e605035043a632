"""BatchNorm: each feature normalised over the batch, all positions together or each by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Positive
from anyformer.operations import Limit, Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts.lookup import InputError
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * gain + bias, a mean and variance per feature (Ioffe & Szegedy 2015, arXiv 1502.03167).

    In training the statistics are those of the batch, as `over` says. In evaluation they are running means, one of each
    feature, so that tokens do not depend on each other. Running means are parameters without a gradient, because a model has
    no buffers that could be lost.
    """

    kind: Literal["batch_norm"] = "batch_norm"
    over: Literal["batch", "position"] = "batch"
    """What training's statistics are taken over, x (B, T, D): a feature over B and T, as in vision over the patches of an
    image, or each element over the B elements at the same position, which leaves later positions unseen."""
    eps: Positive = 1e-5
    momentum: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of a batch's statistics in the new running ones."""
    gain: GainKind = "weight"
    bias: bool = True

    def build(self, width: int) -> BatchNormModule:
        return MODULES[self.over](self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        running = {
            "running_mean": Weight((width,), "replicate", "zeros"),
            "running_variance": Weight((width,), "replicate", "ones"),
        }
        work = normalised(width, vectors, (2 + (self.gain != "none") + self.bias) * width)
        return gain_and_bias(self.gain, self.bias, width, work) + Tally(running, own_limits=LIMITS[self.over])


class BatchNormModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, norm: BatchNorm, width: int) -> None:
        super().__init__()
        self.norm, self.momentum = norm, norm.momentum
        self.weight = nn.Parameter(torch.empty(width)) if norm.gain != "none" else None
        self.bias = nn.Parameter(torch.empty(width)) if norm.bias else None
        self.running_mean = nn.Parameter(torch.empty(width), requires_grad=False)
        self.running_variance = nn.Parameter(torch.empty(width), requires_grad=False)

    def extra_repr(self) -> str:
        return repr(self.norm)

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
LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "batch": Limit.each(
        "BatchNorm's statistics in training are those of all tokens of the batch, padding included",
        "causal", "packed", "padded", in_training=True,
    ),
    "position": Limit.each(
        "BatchNorm's statistics in training are those of the batch's rows at each position, padding included",
        "packed", "padded", in_training=True,
    ),
}  # fmt: skip
"""The contracts that training breaks: with statistics of its own, no position sees a later one."""


@contextlib.contextmanager
def standing_still(module: nn.Module) -> Iterator[None]:
    """Keep running statistics constant: a layer that is computed again has counted its batch already."""
    norms = [inner for inner in module.modules() if isinstance(inner, BatchNormModule)]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm in norms:
            norm.momentum = norm.norm.momentum
