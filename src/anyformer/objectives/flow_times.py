"""Where between data and noise images are when a model learns to move them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive, Registry, Value

if TYPE_CHECKING:
    from torch import Tensor


class FlowTimes(Value):
    """The base of distributions of times from 0, data, to 1, noise."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def of(self, uniform_B: Tensor) -> Tensor:
        """Times (B,), of as many uniform numbers in (0, 1): the inverse of the distribution function."""
        raise NotImplementedError


class UniformTimes(FlowTimes):
    """t ~ U(0, 1) (Lipman et al. 2022, arXiv 2210.02747)."""

    kind: Literal["uniform"] = "uniform"

    def of(self, uniform_B: Tensor) -> Tensor:
        return uniform_B


class LogitNormalTimes(FlowTimes):
    """logit(t) ~ N(mean, deviation^2): more of the middle, where the velocity is hardest to tell (Esser et al. 2024, Stable
    Diffusion 3, arXiv 2403.03206, section 3.1)."""

    kind: Literal["logit_normal"] = "logit_normal"
    mean: float = 0.0
    """Mean of logit(t): above 0 more of the noisy images are asked."""
    deviation: Positive = 1.0
    """Deviation of logit(t): the larger, the more images near data and near noise are asked."""

    def of(self, uniform_B: Tensor) -> Tensor:
        import torch

        return torch.sigmoid(self.mean + self.deviation * torch.special.ndtri(uniform_B))
