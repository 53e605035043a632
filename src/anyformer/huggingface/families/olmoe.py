"""OLMoE (arXiv 2409.02060) and FlexOlmo (2507.07024): OLMo's norm of whole projections, experts in every layer."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import AFTER, ATTENTION, NORMS, QK_NORM, ROUTED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, RMSNorm, Rotary, output_norm, pre_norm


def read(config: Config) -> Architecture:
    config.expect("clip_qkv", None, why="it bounds queries and keys after their norm, here they are bounded before it")
    return _read(config, pre_norm, words.rms_norm(config, 1e-5), words.rotary(config), count=64, chosen=8)


def read_flex(config: Config) -> Architecture:
    norm = words.rms_norm(config, cast="after_gain")
    return _read(config, output_norm, norm, words.rotary(config, theta=5e5, rotate_in="fp32"), count=7, chosen=5)


def _read(config: Config, wired: Any, norm: RMSNorm, rotary: Rotary, **absent: Any) -> Architecture:
    heads = words.attention(config, qk_norm=QKNorm(norm=norm, over="projection"), rotary=rotary)
    router = words.softmax_router(config, renormalises=False)
    experts = words.experts(config, router, size="intermediate_size", **absent)
    return words.decoder(config, words.repeated(config, wired(norm, heads, experts)), norm)


FAMILIES = (
    Family("olmoe", read, decoder_names(ATTENTION, QK_NORM, ROUTED, NORMS), "OlmoeForCausalLM"),
    Family("flex_olmo", read_flex, decoder_names(ATTENTION, QK_NORM, ROUTED, AFTER), "FlexOlmoForCausalLM"),
)
