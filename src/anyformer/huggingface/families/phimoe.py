"""Phi-3.5 MoE: layer norms with biases, and SparseMixer, which chooses two experts one after the other (arXiv 2409.12136)."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import EXPERTS_NORM, decoder, first, heads, window, window_size, written_activation
from anyformer.huggingface.families.mixtral import NUMBERED
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Head, LayerNorm, Rotary, Router, SparseMixer, pre_norm
from anyformer.parts.heads import PROJECTIONS


def read(config: Config) -> Architecture:
    config.expect("num_experts_per_tok", 2)
    norm = LayerNorm(eps=config("rms_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        mask=window(config),
        rotary=_rotary(config),
        dropout=config("attention_dropout", 0.0),
    )
    experts = Experts(
        experts=config("num_local_experts", 16),
        chosen=2,
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "silu")),
        router=Router(choice=SparseMixer(margin=2 * config("router_jitter_noise", 0.01))),
    )
    depth = config("num_hidden_layers")
    head = Head(bias=config("lm_head_bias", False))
    return decoder(config, ["layer"] * depth, [pre_norm(norm, attention, experts)] * depth, norm, head=head)


def _rotary(config: Config) -> Rotary:
    """LongRoPE names the factor of its waves twice, for short texts and for long ones."""
    table = rope_parameters(config, theta=1e6)
    config.expect("original_max_position_embeddings", None, table.get("original_max_position_embeddings"))
    if table["rope_type"] == "default":
        return read_rotary(table)
    short, long = (table.pop(f"{length}_mscale", None) for length in ("short", "long"))
    if table["rope_type"] != "longrope" or short is None or short != long:
        raise HuggingFaceError(
            f"{config.where}: rope_type is {table['rope_type']!r} with short_mscale = {short} and long_mscale = {long}; only "
            f"'default' and 'longrope' with one factor are known for phimoe"
        )
    return read_rotary({**table, "attention_factor": float(short)}, unread=("factor",))


def _write_rope(attention: Attention) -> dict[str, Any]:
    table = write_rope(attention.rotary)["rope_parameters"]
    if table["rope_type"] == "longrope":
        table |= dict.fromkeys(("short_mscale", "long_mscale"), table.pop("attention_factor"))
    return {"rope_parameters": table}


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "attention_bias": bool(attention.bias),
            "sliding_window": window_size(architecture),
            **_write_rope(attention),
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "hidden_act": written_activation(architecture),
            "router_jitter_noise": experts.router.choice.plain()["margin"] / 2,
            "lm_head_bias": get(architecture, "head.bias"),
        }
    )


FAMILIES = (
    Family(
        "phimoe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, NUMBERED, NORMS, EXPERTS_NORM),
        "PhimoeForCausalLM",
        # Noise of training that a description has no word for: in training the experts too read noisy inputs.
        inert=("hidden_dropout", "input_jitter_noise"),
    ),
)
