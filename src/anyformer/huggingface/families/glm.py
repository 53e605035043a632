"""GLM-4: neighbouring features turned on half of each head, gate and up in one; GLM-4-0414 norms what the branches give too."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, FUSED_GATE, attention, feedforward, model, needs, repeated
from anyformer.huggingface.families.llama import ATTENTION, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import RMSNorm

NORMS_AFTER: Table = {
    "attention.norm_after": "post_self_attn_layernorm",
    "feedforward.norm_after": "post_mlp_layernorm",
}


def read(config: Config, *, sandwich: bool = False) -> Architecture:
    config.assume(num_key_value_heads=2, head_dim=128)
    needs(config, "num_key_value_heads", "head_dim")
    norm = RMSNorm(eps=config("rms_norm_eps", 1.5625e-7))
    heads = attention(
        config,
        rotary=read_rope(config, fraction=0.5, pairing="adjacent"),
        bias=("query", "key", "value") if config("attention_bias", True) else (),
    )
    block = decoder.block(heads, feedforward(config), before=norm, after=norm if sandwich else None)
    return model(config, repeated(config, block), norm)


def read4(config: Config) -> Architecture:
    return read(config, sandwich=True)


def write(architecture: Architecture) -> dict[str, Any]:
    written = decoder.write(architecture)
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return {**written, "attention_bias": decoder.biased(architecture)}


FAMILIES = (
    Family(
        "glm",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FUSED_GATE, NORMS),
        "GlmForCausalLM",
        ignored=BUFFERS,
    ),
    Family(
        "glm4",
        read4,
        write,
        lambda architecture: decoder_names(ATTENTION, FUSED_GATE, NORMS, NORMS_AFTER),
        "Glm4ForCausalLM",
        ignored=BUFFERS,
    ),
)
