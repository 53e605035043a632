"""Beam: sandwich norms, residuals scaled by depth, gates with a bias per head, DeepSeek-V3's experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import AFTER, ATTENTION, BEFORE, CORRECTION, FEEDFORWARD, QK_NORM, ROUTED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Gate, PowerTemperature, QKNorm, RMSNorm, sandwich
from anyformer.parts.sublayer import Sublayer

_NAMES: Table = {
    "attention.gate.projection": "self_attn.gate_proj",
    "attention.gate.bias": "self_attn.gate_bias",
    "experts.norm_before": "pre_feedforward_layernorm",
}
_ROPE: dict[str, dict[str, Any] | None] = {SLIDING: {}, FULL: None}


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=151_936, hidden_size=5120, num_hidden_layers=52, num_attention_heads=48, num_key_value_heads=8,
        intermediate_size=20_480, sliding_window=512, max_position_embeddings=8192,
    )  # fmt: skip
    norm, depth = words.rms_norm(config, cast="after_gain"), config("num_hidden_layers")
    kinds = words.windows(config, lambda i: FULL if i == depth - 1 else words.every(6)(i))
    rotary = words.some_rotary_by_type(config, dict.fromkeys(kinds), _ROPE)
    heads = words.attention(config, kv_heads=8, head_width=128, qk_norm=QKNorm(norm=norm), gate=Gate(bias="head"))
    router = words.v3_router(config, groups=8, keep=4, scale=2.5)
    experts = words.experts(config, router, count=256, chosen=8, width=2560, counted=("num_experts",))

    def attention(kind: str, _: str) -> Attention:
        turned, mask = rotary[kind], words.mask(config, kind)
        return heads.but(rotary=turned, mask=mask, temperature=None if turned else PowerTemperature())

    networks = words.mlp_types(config, min(3, depth))
    layers = words.expert_layers(config, norm, attention, experts, words.feedforward(config), kinds, networks, wire=_wire)
    return words.decoder(config, layers, norm, softcap=config("final_logit_softcapping", 30.0))


def _wire(norm: RMSNorm, *sublayers: Sublayer) -> Block:
    block = sandwich(norm, *sublayers)
    return block.but(steps=tuple(step.but(residual_scale="by_layer") for step in block.steps))


FAMILIES = (
    Family(
        "beam",
        read,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, ROUTED, CORRECTION, BEFORE, AFTER, _NAMES),
        "BeamForCausalLM",
    ),
)
