"""gpt-oss: sinks, alternating windows, experts with biases whose gate and up stand column by column (arXiv 2508.10925)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    decoder,
    first,
    heads,
    label,
    layer_types,
    layer_words,
    window_size,
)
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Alternating, Table, Then, To, Transposed
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, RMSNorm, Router, Window, pre_norm
from anyformer.parts.heads import PROJECTIONS

ALPHA = 1.702
"""Of gate * sigmoid(alpha * gate): what `quick_gelu` has."""
_YARN = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
_EXPERTS: Table = {
    "experts.router": "mlp.router",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Then(Transposed(), Alternating(dim=1))),
    ("experts.gate_bias", "experts.up_bias"): To("mlp.experts.gate_up_proj_bias", Alternating(dim=1)),
    "experts.down": To("mlp.experts.down_proj", Transposed()),
    "experts.down_bias": "mlp.experts.down_proj_bias",
    "attention.sink": "self_attn.sinks",
}


def read(config: Config) -> Architecture:
    config.expect("swiglu_alpha", ALPHA)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5), cast="after_gain")
    known = any(config(name, None) is not None for name in ("rope_parameters", "rope_scaling"))
    table = rope_parameters(config, theta=150_000.0)
    full = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", 64),
        bias=PROJECTIONS if config("attention_bias", True) else (),
        sink="head",
        rotary=read_rotary(table if known else {**_YARN, "rope_theta": table["rope_theta"]}),
        dropout=config("attention_dropout", 0.0),
    )
    experts = Experts(
        experts=config("num_local_experts", 128),
        chosen=config("num_experts_per_tok", config("experts_per_token", 4)),
        width=config("intermediate_size"),
        activation="quick_gelu",
        bias=("gate", "up", "down"),
        clamp=float(config("swiglu_limit", 7.0)),
        up_offset=1.0,
        router=Router(over="chosen", bias=True),
    )
    size = config("sliding_window", 128)
    made = {"full": pre_norm(norm, full, experts)}
    if size is not None:
        made["local"] = pre_norm(norm, full.but(mask=Window(size=size)), experts)
    seen = {FULL: "full"} if size is None else {FULL: "full", SLIDING: "local"}
    windows = layer_words(config, lambda i: (SLIDING, FULL)[i % 2], known=seen)
    return decoder(config, label(windows), [made[kind] for kind in windows], norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "head_dim": attention.head_width,
            "attention_bias": bool(attention.bias),
            **write_rope(attention.rotary),
            "layer_types": layer_types(architecture),
            "sliding_window": window_size(architecture),
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "swiglu_limit": experts.clamp,
        }
    )


FAMILIES = (
    Family(
        "gpt_oss",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, _EXPERTS, NORMS, EXPERTS_NORM),
        "GptOssForCausalLM",
        inert=("hidden_act", "initial_context_length"),
    ),
)
