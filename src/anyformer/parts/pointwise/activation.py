"""Activations: elementwise functions by name, some with learned numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Role, Tally, Weight
from anyformer.operations.elementwise import activated
from anyformer.tape import Held, Tape


@dataclass(frozen=True)
class Activation:
    """`function(x, *learned)`; `keeps`: what it keeps for backward.

    `title`: the field's word for it; `gated`: for a network whose gate it acts on, where that has a word of its own.
    `learned`: the first value of each number that it learns, `per` layer (1,) or per feature (D,).
    """

    function: Callable[..., Tensor]
    keeps: Callable[[Tape, Held], Held]
    title: str
    gated: str | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    per: Literal["layer", "feature"] = "layer"

    def cost(self, width: int, vectors: int, *, gated: bool = False) -> Tally:
        """Its weights over `width` features, and its work on so many vectors, multiplied by as many others that they gate."""
        size, role = self._size(width), _ROLES[self.per]
        weights = {name: Weight((size,), role, start) for name, start in self.learned.items()}
        return Tally(weights, {"": activated(width * vectors, gated=gated)})

    def build(self, width: int) -> ActivationModule:
        """The module: (..., width) -> (..., width)."""
        return ActivationModule(self.function, tuple(self.learned), self._size(width))

    def _size(self, width: int) -> int:
        return width if self.per == "feature" else 1


_ROLES: Mapping[str, Role] = {"feature": "column", "layer": "replicate"}
"""Vectors are cut with the features that they belong to."""


class ActivationModule(nn.Module):
    """Elementwise."""

    def __init__(self, function: Callable[..., Tensor], learned: tuple[str, ...], size: int) -> None:
        super().__init__()
        self.function, self.learned = function, learned
        for name in learned:
            self.register_parameter(name, nn.Parameter(torch.empty(size)))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *(self.get_parameter(name).to(x.dtype) for name in self.learned))


def keeps_input(tape: Tape, x: Held) -> Held:
    """A function whose slope is computed from x again."""
    tape.keep("activation", x)
    return tape.like(x)


def keeps_output(tape: Tape, x: Held) -> Held:
    """A function whose slope follows from its value."""
    y = tape.like(x)
    tape.keep("activation", y)
    return y


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)^2 (So et al. 2021, arXiv 2109.08668)."""
    return F.relu(x).square()


def swish(x: Tensor, beta: float | Tensor) -> Tensor:
    """x * sigmoid(beta x) (Ramachandran et al. 2017, arXiv 1710.05941)."""
    return x * torch.sigmoid(beta * x)


def swish_keeps(tape: Tape, x: Held, *, learned: bool = False) -> Held:
    """x, also for beta's gradient, and the sigmoid; beta itself where it is a copy."""
    tape.keep("beta", *([tape.parameter(1, x.number)] if learned else []))
    return tape.times("activation", x, keeps_output(tape, x))


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where positive, slope * x elsewhere, a slope per feature (He et al. 2015, arXiv 1502.01852)."""
    return torch.where(x > 0, x, slope * x)


def prelu_keeps(tape: Tape, x: Held) -> Held:
    """x, the slopes, and where x > 0."""
    tape.keep("activation", tape.new(x.elements, "bool"))
    return tape.times("activation", x, tape.parameter(x.elements // (tape.shape.batch * tape.shape.length), x.number))


def xielu(x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Integral of an ELU with learned curvatures (Huang & Schlag 2024, arXiv 2411.13010; Apertus).

    a x^2 + x / 2 for x > 0, else b (exp(min(x, -1e-6)) - 1 - x) + x / 2; a = softplus(positive), b = 1/2 + softplus(negative).
    """
    a, b = F.softplus(positive), 0.5 + F.softplus(negative)
    return torch.where(x > 0, a * x * x, b * (torch.expm1(x.clamp(max=-1e-6)) - x)) + 0.5 * x


def xielu_keeps(tape: Tape, x: Held) -> Held:
    """x, a x, expm1, the difference that b multiplies, and where x > 0."""
    tape.keep("curvatures", *(tape.parameter(1, x.number) for _ in range(2)), *(tape.new(1, x.number) for _ in range(2)))
    tape.keep("activation", x, *(tape.like(x) for _ in range(3)), tape.new(x.elements, "bool"))
    return tape.like(x)


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "relu": Activation(F.relu, keeps_output, "ReLU", "ReGLU"),
        "relu_squared": Activation(relu_squared, lambda tape, x: tape.like(keeps_output(tape, x)), "ReLU²"),
        "gelu": Activation(F.gelu, keeps_input, "GELU", "GeGLU"),
        "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), keeps_input, "GELU", "GeGLU"),
        "quick_gelu": Activation(partial(swish, beta=1.702), swish_keeps, "GELU", "GeGLU"),
        "sigmoid": Activation(torch.sigmoid, keeps_output, "sigmoid", "GLU"),
        "softplus": Activation(F.softplus, keeps_input, "softplus"),
        "tanh": Activation(torch.tanh, keeps_output, "tanh"),
        "silu": Activation(F.silu, keeps_input, "SiLU", "SwiGLU"),
        "swish": Activation(swish, partial(swish_keeps, learned=True), "Swish", "SwiGLU", {"beta": 1.0}),
        "prelu": Activation(prelu, prelu_keeps, "PReLU", None, {"slope": 0.25}, per="feature"),
        "xielu": Activation(xielu, xielu_keeps, "xIELU", None, {"positive": 0.2025, "negative": -1.0502}),
    }
)
"""Name -> activation. To add one, add a line; its function has a name, so that models can be pickled.

`swish` learns its beta, `silu` has 1, `quick_gelu` 1.702. The first values of `xielu` make a = 0.8 and b = 0.8, up to
rounding: softplus(0.2025) = 0.8, softplus(-1.0502) = 0.3.
"""


def activation_name(activation: str, *, gated: bool) -> str:
    """The field's word for a feed-forward network with this activation: SwiGLU, GeGLU, ReLU."""
    found = ACTIVATIONS[activation]
    return (found.gated or f"gated {found.title}") if gated else found.title


def built_activation(activation: str | None, width: int) -> nn.Module:
    """The module of an activation, by its name; of none the identity."""
    return nn.Identity() if activation is None else ACTIVATIONS[activation].build(width)
