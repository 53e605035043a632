"""Qwen 1.5, 2 and 3 MoE: Qwen's attention and many small experts, with a shared one or none."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, ROUTED, decoder_names, shared_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Causal, Experts, QKNorm


def read2(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm, bias = words.rms_norm(config), words.biases(config, "qkv_bias", True, words.QKV)
    heads = words.attention(config, kv_heads=16, bias=bias, rotary=words.rotary(config))
    experts = words.shared_of_width(config, _experts(config, chosen=4, count=60, width=1408), 5632, gate="sigmoid")
    slides, most = config("use_sliding_window", False), config("max_window_layers", 28)
    kinds = words.windows(config, lambda i: SLIDING if slides and i % 2 == 0 and i < most else FULL)

    def attention(kind: str, _: str) -> Attention:
        return heads.but(mask=words.mask(config, kind))

    dense, networks = words.feedforward(config, width=5632), words.sparse_layers(config)
    return words.decoder(config, words.expert_layers(config, norm, attention, experts, dense, kinds, networks), norm)


def read3(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm, near = words.rms_norm(config), words.mask_of_all(config)
    mask = near if config("use_sliding_window", False) else Causal()
    heads = words.attention(config, kv_heads=4, qk_norm=QKNorm(norm=norm), mask=mask, rotary=words.rotary(config))
    experts = _experts(config, chosen=8, count=128, width=768)
    dense, networks = words.feedforward(config, width=6144), words.sparse_layers(config)
    return words.decoder(config, words.expert_layers(config, norm, lambda _: heads, experts, dense, networks), norm)


def _experts(config: Config, **absent: Any) -> Experts:
    return words.experts(config, words.softmax_router(config, renormalises=False), **absent)


_TABLES = (ATTENTION, FEEDFORWARD, ROUTED, NORMS)
_SHARED = {"experts.shared_gate": "mlp.shared_expert_gate", **shared_names("mlp.shared_expert")}
FAMILIES = (
    Family("qwen2_moe", read2, decoder_names(*_TABLES, _SHARED), "Qwen2MoeForCausalLM"),
    Family("qwen3_moe", read3, decoder_names(*_TABLES, QK_NORM), "Qwen3MoeForCausalLM", inert=("max_window_layers",)),
)
