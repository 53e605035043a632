"""GLM-4: adjacent rotary pairs in half of each head, gate and up fused; GLM-4-0414: norms after branches too."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FUSED_GATE, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm, sandwich


def read(config: Config, wired: Any = pre_norm) -> Architecture:
    config.assume(num_key_value_heads=2, head_dim=128)
    words.needs(config, "num_key_value_heads", "head_dim")
    norm = words.rms_norm(config, 1.5625e-7)
    rotary = words.rotary(config, fraction=0.5, pairing="adjacent")
    heads = words.attention(config, rotary=rotary, bias=words.biases(config, default=True, names=words.QKV))
    return words.decoder(config, words.repeated(config, wired(norm, heads, words.feedforward(config))), norm)


def read4(config: Config) -> Architecture:
    return read(config, sandwich)


_AFTER = {"attention.norm_after": "post_self_attn_layernorm", "feedforward.norm_after": "post_mlp_layernorm"}
FAMILIES = (
    Family("glm", read, decoder_names(ATTENTION, FUSED_GATE, NORMS), "GlmForCausalLM"),
    Family("glm4", read4, decoder_names(ATTENTION, FUSED_GATE, NORMS, _AFTER), "Glm4ForCausalLM"),
)
