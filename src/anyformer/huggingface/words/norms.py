"""Norms: their epsilon is a key, the rest belongs to the model type."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.parts import LayerNorm, RMSNorm

Norm = LayerNorm | RMSNorm


def rms_norm(config: Config, eps: float = 1e-6, key: str = "rms_norm_eps", **fields: Any) -> RMSNorm:
    """`eps`: where the configuration is silent."""
    return RMSNorm(eps=config(key, eps), **fields)


def layer_norm(config: Config, eps: float = 1e-5, key: str = "layer_norm_eps", **fields: Any) -> LayerNorm:
    """`eps`: where the configuration is silent."""
    return LayerNorm(eps=config(key, eps), **fields)
