"""Activations: element-wise functions by name, some with learned parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Dimension, Role, Tally, Weight
from anyformer.operations.elementwise import activated


@dataclass(frozen=True)
class Activation:
    """`function(x, *learned)`.

    `title`: its usual name; `gated`: the usual name of a network whose gate it acts on, None if there is none.
    `learned`: the initial value of each of its parameters, which are `per` layer (1,) or per feature (D,).
    """

    function: Callable[..., Tensor]
    title: str
    gated: str | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    per: Literal["layer", "feature"] = "layer"

    @property
    def spread(self) -> float:
        """The root mean square of its values over N(0, 1), its parameters at their initial values."""
        x = torch.linspace(-12, 12, 4801, dtype=torch.float64, device="cpu")
        start = (torch.tensor(each, dtype=torch.float64, device="cpu") for each in self.learned.values())
        density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
        return math.sqrt(torch.trapezoid(self.function(x, *start).square() * density, x).item())

    def cost(self, width: int, vectors: int, *, gated: bool = False) -> Tally:
        """Its weights over `width` features, and its work on `vectors` vectors; `gated`: then multiplied by as many others."""
        # Parameters per feature are divided with the features.
        role: Role = "column" if self.per == "feature" else "replicate"
        axes: tuple[Dimension, ...] = ((("ffn", width),),) if self.per == "feature" else ()
        weights = {name: Weight((self._size(width),), role, start, axes=axes) for name, start in self.learned.items()}
        return Tally(weights, {"": activated(width * vectors, gated=gated)})

    def build(self, width: int) -> ActivationModule:
        """The module: (..., width) -> (..., width)."""
        return ActivationModule(self.function, tuple(self.learned), self._size(width))

    def _size(self, width: int) -> int:
        return width if self.per == "feature" else 1


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


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "relu": Activation(F.relu, "ReLU", "ReGLU"),
        "relu_squared": Activation(relu_squared, "ReLU²"),
        "gelu": Activation(F.gelu, "GELU", "GeGLU"),
        "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), "GELU", "GeGLU"),
        "quick_gelu": Activation(partial(swish, beta=1.702), "GELU", "GeGLU"),
        "sigmoid": Activation(torch.sigmoid, "sigmoid", "GLU"),
        "softplus": Activation(F.softplus, "softplus"),
        "tanh": Activation(torch.tanh, "tanh"),
        "silu": Activation(F.silu, "SiLU", "SwiGLU"),
        "swish": Activation(swish, "Swish", "SwiGLU", {"beta": 1.0}),
        "prelu": Activation(prelu, "PReLU", None, {"slope": 0.25}, per="feature"),
        "xielu": Activation(xielu, "xIELU", None, {"positive": 0.2025, "negative": -1.0502}),
    }
)
"""Activations by name. A new one takes one line; its function has a name, so that models can be pickled.

`swish` learns its beta, which is 1 in `silu` and 1.702 in `quick_gelu`. The initial values of `xielu` make a = 0.8 and b = 0.8,
up to rounding: softplus(0.2025) = 0.8, softplus(-1.0502) = 0.3.
"""


def activation_name(activation: str, *, gated: bool) -> str:
    """The usual name of a feed-forward network with this activation: SwiGLU, GeGLU, ReLU."""
    entry = ACTIVATIONS[activation]
    return (entry.gated or f"gated {entry.title}") if gated else entry.title


def built_activation(activation: str | None, width: int) -> nn.Module:
    """The module of the activation of this name; the identity for None."""
    return nn.Identity() if activation is None else ACTIVATIONS[activation].build(width)
