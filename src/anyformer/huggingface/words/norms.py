"""Norms, whose epsilon is a key of the configuration; the model type sets the other fields."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.parts import LayerNorm, RMSNorm

Norm = LayerNorm | RMSNorm


def rms_norm(config: Config, eps: float = 1e-6, key: str = "rms_norm_eps", **fields: Any) -> RMSNorm:
    """The norm; `eps`: where the key is absent."""
    return RMSNorm(eps=config(key, eps), **fields)


def layer_norm(config: Config, eps: float = 1e-5, key: str = "layer_norm_eps", **fields: Any) -> LayerNorm:
    """The norm; `eps`: where the key is absent."""
    return LayerNorm(eps=config(key, eps), **fields)
