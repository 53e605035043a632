"""Activations by their names in transformers."""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.target import Place, Target, value_at

ALPHA = 1.702
"""The alpha of `quick_gelu`: gate * sigmoid(alpha * gate)."""
ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "quick_gelu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "xielu": "xielu",
}
"""Name in transformers -> ours. Of several names the first is written, unless the model type's default is another."""


def activation(config: Config, key: str = "hidden_act", default: str = "silu", at: Place | None = None) -> str:
    """Our name of the activation that a key names; `at`: its place, if not in the network or the experts."""
    usual = config.usual(key, default)
    return known(config(key, default, lambda target: named(value_at(target, at or of_network), usual)))


def of_network(target: Target) -> str:
    """The activation of the first feed-forward network, else of the first experts."""
    return str(target.get("feedforward.activation") or target("experts.activation"))


def known(name: str) -> str:
    """Our name of an activation of transformers."""
    if name not in ACTIVATIONS:
        raise HuggingFaceError(f"activation {name!r} is not known here, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def named(name: str, usual: str = "") -> str:
    """Transformers' name of an activation: `usual` if it is one, since its functions of one formula differ in the last bit."""
    if usual is not REQUIRED and ACTIVATIONS.get(usual) == name:
        return usual
    for theirs, ours in ACTIVATIONS.items():
        if ours == name:
            return theirs
    raise HuggingFaceError(f"transformers has no activation {name!r}")
