"""Feed-forward networks: their width, activation and biases."""

from __future__ import annotations

from typing import Any, Literal

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.words.activations import activation
from anyformer.parts import FeedForward

Side = Literal["gate", "up", "down"]


def feedforward(
    config: Config,
    key: str = "hidden_act",
    default: str = "silu",
    *,
    size: str = "intermediate_size",
    width: int | None = REQUIRED,
    gated: bool = True,
    bias: bool = False,
    **fields: Any,
) -> FeedForward:
    """The network; `default` and `width`: what absent keys mean, of which the second is `size`; `bias`: on all matrices."""
    sides: tuple[Side, ...] = ("gate", "up", "down") if gated else ("up", "down")
    name = activation(config, key, default)
    return FeedForward(
        width=config(size, width, "feedforward.width"), activation=name, gated=gated, bias=sides if bias else (), **fields
    )


def plain(config: Config, default: str = "gelu", key: str = "hidden_act", *, bias: bool = True, **more: Any) -> FeedForward:
    """The network without a gate."""
    return feedforward(config, key, default, gated=False, bias=bias, **more)
