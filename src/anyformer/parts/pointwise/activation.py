"""Activations: elementwise functions by name, some with learned scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.tally import Tally, Weight
from anyformer.tape import Held, Tape


@dataclass(frozen=True)
class Activation:
    """`function(x, *scalars)`; `keeps`: what it keeps for backward; `learned` maps each scalar to its first value."""

    function: Callable[..., Tensor]
    keeps: Callable[[Tape, Held], Held]
    learned: Mapping[str, float] = field(default_factory=dict)

    def cost(self) -> Tally:
        return Tally({name: Weight((1,), "replicate", start) for name, start in self.learned.items()})

    def build(self) -> ActivationModule:
        return ActivationModule(self)


class ActivationModule(nn.Module):
    """Elementwise."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.function, self.scalars = activation.function, tuple(activation.learned)
        for name in self.scalars:
            self.register_parameter(name, nn.Parameter(torch.empty(1)))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *(self.get_parameter(name).to(x.dtype) for name in self.scalars))


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
        "relu": Activation(F.relu, keeps_output),
        "relu_squared": Activation(relu_squared, lambda tape, x: tape.like(keeps_output(tape, x))),
        "gelu": Activation(F.gelu, keeps_input),
        "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), keeps_input),
        "quick_gelu": Activation(partial(swish, beta=1.702), swish_keeps),
        "sigmoid": Activation(torch.sigmoid, keeps_output),
        "tanh": Activation(torch.tanh, keeps_output),
        "silu": Activation(F.silu, keeps_input),
        "swish": Activation(swish, partial(swish_keeps, learned=True), {"beta": 1.0}),
        "xielu": Activation(xielu, xielu_keeps, {"positive": 0.2025, "negative": -1.0502}),
    }
)
"""Name -> activation. To add one, add a line; its function has a name, so that models can be pickled.

`swish` learns its beta, `silu` has 1, `quick_gelu` 1.702. The first values of `xielu` make a = 0.8 and b = 0.8, up to
rounding: softplus(0.2025) = 0.8, softplus(-1.0502) = 0.3.
"""

FIXED: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {name: activation.function for name, activation in ACTIVATIONS.items() if not activation.learned}
)
"""Those that learn nothing."""

_GATED = {"silu": "SwiGLU", "swish": "SwiGLU", "relu": "ReGLU", "sigmoid": "GLU"}
_PLAIN = {"silu": "SiLU", "swish": "Swish", "relu": "ReLU", "relu_squared": "ReLU²", "xielu": "xIELU"}
_GELU = ("gelu", "gelu_tanh", "quick_gelu")


def activation_name(activation: str, *, gated: bool) -> str:
    """The field's word for a feed-forward network with this activation: SwiGLU, GeGLU, ReLU."""
    if activation in _GELU:
        return "GeGLU" if gated else "GELU"
    return _GATED.get(activation, f"gated {activation}") if gated else _PLAIN.get(activation, activation)
