"""BatchNorm: each feature normalised over the batch and all positions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Positive
from anyformer.operations import Limit, Tally, Weight
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * gain + bias, a mean and variance per feature (Ioffe & Szegedy 2015, arXiv 1502.03167).

    In training the statistics are those of the batch, over B and T for (B, T, D), as in vision over the patches of an image.
    In evaluation they are running means, so that tokens do not depend on each other. Running means are parameters without a
    gradient, because a model has no buffers that could be lost.
    """

    kind: Literal["batch_norm"] = "batch_norm"
    eps: Positive = 1e-5
    momentum: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of a batch's statistics in the new running ones."""
    gain: GainKind = "weight"
    bias: bool = True

    def build(self, width: int) -> BatchNormModule:
        return BatchNormModule(self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        running = {
            "running_mean": Weight((width,), "replicate", "zeros"),
            "running_variance": Weight((width,), "replicate", "ones"),
        }
        reason = "BatchNorm's statistics in training are those of all tokens of the batch, padding included"
        limits = Limit.each(reason, "causal", "packed", "padded", in_training=True)
        return gain_and_bias(self.gain, self.bias, width, vectors) + Tally(running, own_limits=limits)


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
        gain_D = None if self.weight is None else self.weight + (1 if self.norm.gain == "one_plus_weight" else 0)
        y_ZD = nn.functional.batch_norm(
            x_D.flatten(0, -2).to(self.running_mean.dtype), self.running_mean, self.running_variance, gain_D, self.bias,
            self.training, self.momentum, self.norm.eps,
        )  # fmt: skip
        return y_ZD.view(x_D.shape).to(x_D.dtype)


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
