"""Activations: element-wise functions by name, some with learned parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from anyformer.operations import Dimension, Role, Tally, Weight
from anyformer.operations.elementwise import activated


@dataclass(frozen=True)
class Activation:
    """An element-wise function of x and of what it learns; `FUNCTIONS` of `activation_module` has the function of its name.

    `title`: its usual name; `gated`: the usual name of a network whose gate it acts on, None if there is none.
    `learned`: the initial value of each of its parameters, which are `per` layer (1,) or per feature (D,).
    """

    title: str
    gated: str | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    per: Literal["layer", "feature"] = "layer"

    def cost(self, width: int, vectors: int, *, gated: bool = False) -> Tally:
        """Its weights over `width` features, and its work on `vectors` vectors; `gated`: then multiplied by as many others."""
        # Parameters per feature are divided with the features.
        role: Role = "column" if self.per == "feature" else "replicate"
        axes: tuple[Dimension, ...] = ((("ffn", width),),) if self.per == "feature" else ()
        weights = {name: Weight((self.size(width),), role, start, axes=axes) for name, start in self.learned.items()}
        return Tally(weights, {"": activated(width * vectors, gated=gated)})

    def size(self, width: int) -> int:
        """Numbers of each of its parameters over `width` features."""
        return width if self.per == "feature" else 1


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "relu": Activation("ReLU", "ReGLU"),
        "relu_squared": Activation("ReLU²"),
        "gelu": Activation("GELU", "GeGLU"),
        "gelu_tanh": Activation("GELU", "GeGLU"),
        "quick_gelu": Activation("GELU", "GeGLU"),
        "sigmoid": Activation("sigmoid", "GLU"),
        "softplus": Activation("softplus"),
        "tanh": Activation("tanh"),
        "silu": Activation("SiLU", "SwiGLU"),
        "swish": Activation("Swish", "SwiGLU", {"beta": 1.0}),
        "prelu": Activation("PReLU", None, {"slope": 0.25}, per="feature"),
        "xielu": Activation("xIELU", None, {"positive": 0.2025, "negative": -1.0502}),
    }
)
"""Activations by name. A new one takes a line here and a line in `FUNCTIONS` of `activation_module`.

`swish` learns its beta, which is 1 in `silu` and 1.702 in `quick_gelu`. The initial values of `xielu` make a = 0.8 and b = 0.8,
up to rounding: softplus(0.2025) = 0.8, softplus(-1.0502) = 0.3.
"""


def activation_name(activation: str, *, gated: bool) -> str:
    """The usual name of a feed-forward network with this activation: SwiGLU, GeGLU, ReLU."""
    entry = ACTIVATIONS[activation]
    return (entry.gated or f"gated {entry.title}") if gated else entry.title
