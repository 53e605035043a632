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
    size: str | None = "intermediate_size",
    width: int = REQUIRED,
    gated: bool = True,
    bias: bool = False,
    **fields: Any,
) -> FeedForward:
    """The network; `key`, `default`: of its activation; `size`, `width`: key and default of its width, or None and the width.

    `bias`: on all matrices.
    """
    sides: tuple[Side, ...] = ("gate", "up", "down") if gated else ("up", "down")
    given: dict[str, Any] = {"width": width if size is None else config(size, width, "feedforward.width"), "gated": gated}
    return FeedForward(**given, activation=activation(config, key, default), bias=sides if bias else (), **fields)


def four_times(config: Config, width: int, key: str) -> int:
    """The width of the network by a key, else 4 D."""
    return config(key, None, "feedforward.width") or 4 * width


def plain(config: Config, default: str = "gelu", key: str = "hidden_act", *, bias: bool = True, **more: Any) -> FeedForward:
    """A network without a gate."""
    return feedforward(config, key, default, gated=False, bias=bias, **more)
