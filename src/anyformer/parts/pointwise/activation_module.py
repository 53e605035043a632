"""What activations compute: the function of each name, and its module."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.pointwise.activation import ACTIVATIONS


class ActivationModule(nn.Module):
    """(..., width) -> (..., width), element by element."""

    def __init__(self, function: Callable[..., Tensor], learned: tuple[str, ...], size: int) -> None:
        super().__init__()
        self.function, self.learned = function, learned
        for name in learned:
            self.register_parameter(name, nn.Parameter(torch.empty(size)))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *(getattr(self, name).to(x.dtype) for name in self.learned))


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)."""
    return F.relu(x).square()


def swish(x: Tensor, beta: float | Tensor) -> Tensor:
    """x * sigmoid(beta x) (Ramachandran et al. 2017, arXiv 1710.05941)."""
    return x * torch.sigmoid(beta * x)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where positive, slope * x elsewhere, a slope per feature (He et al. 2015, arXiv 1502.01852)."""
    return torch.where(x > 0, x, slope * x)


def xielu(x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Integral of an ELU with learned curvatures (Huang & Schlag 2024, arXiv 2411.13010; Apertus).

    a x^2 + x / 2 for x > 0, else b (exp(min(x, -1e-6)) - 1 - x) + x / 2; a = softplus(positive), b = 1/2 + softplus(negative).
    """
    a, b = F.softplus(positive), 0.5 + F.softplus(negative)
    return torch.where(x > 0, a * x * x, b * (torch.expm1(x.clamp(max=-1e-6)) - x)) + 0.5 * x


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "relu": F.relu,
        "relu_squared": relu_squared,
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "quick_gelu": partial(swish, beta=1.702),
        "sigmoid": torch.sigmoid,
        "softplus": F.softplus,
        "tanh": torch.tanh,
        "silu": F.silu,
        "swish": swish,
        "prelu": prelu,
        "xielu": xielu,
    }
)
"""`function(x, *learned)` by the name of its activation. Each has a name, so that models can be pickled."""


def built_activation(activation: str | None, width: int) -> nn.Module:
    """The module of the activation of this name, (..., width) -> (..., width); the identity for None."""
    if activation is None:
        return nn.Identity()
    described = ACTIVATIONS[activation]
    return ActivationModule(FUNCTIONS[activation], tuple(described.learned), described.size(width))


def spread(activation: str) -> float:
    """The root mean square of an activation's values over N(0, 1), its parameters at their initial values."""
    x = torch.linspace(-12, 12, 4801, dtype=torch.float64, device="cpu")
    learned = ACTIVATIONS[activation].learned.values()
    start = (torch.tensor(each, dtype=torch.float64, device="cpu") for each in learned)
    density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(torch.trapezoid(FUNCTIONS[activation](x, *start).square() * density, x).item())
