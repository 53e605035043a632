"""BatchNorm: each feature normalised over the batch, all positions together or each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Positive
from anyformer.operations import Limit, Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias

if TYPE_CHECKING:
    from anyformer.parts.norms.batch_norm_module import BatchNormModule


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * gain + bias, a mean and variance per feature (Ioffe & Szegedy 2015, arXiv 1502.03167).

    In training the statistics are those of the batch, as `over` says. In evaluation they are running means, one of each
    feature, so that tokens do not depend on one another. Running means are parameters without a gradient, because a model has
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
        from anyformer.parts.norms.batch_norm_module import MODULES

        return MODULES[self.over](self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        running = {
            "running_mean": Weight((width,), "replicate", "zeros", learnt=False),
            "running_variance": Weight((width,), "replicate", "ones", learnt=False),
        }
        work = normalised(width, vectors, (2 + (self.gain != "none") + self.bias) * width)
        return gain_and_bias(self.gain, self.bias, width, work) + Tally(running, own_limits=LIMITS[self.over])


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
