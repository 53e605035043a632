"""Mixtral: Mistral whose layers hold experts, of which the best two are weighed by a softmax over them (arXiv 2401.04088)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    decoder,
    first,
    heads,
    one_by_one,
    window,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Renormalise, RMSNorm, Router, pre_norm

NUMBERED: Table = {
    "experts.router": "block_sparse_moe.gate",
    **one_by_one("block_sparse_moe.experts", "w1", "w3", "w2"),
}


def read(config: Config) -> Architecture:
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", None),
        mask=window(config),
        rotary=read_rotary(rope_parameters(config, theta=1e6)),
        dropout=config("attention_dropout", 0.0),
    )
    experts = Experts(
        experts=config("num_local_experts", 8),
        chosen=config("num_experts_per_tok", 2),
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "silu")),
        router=Router(renormalise=Renormalise(eps=0.0)),
    )
    depth = config("num_hidden_layers")
    return decoder(config, ["layer"] * depth, [pre_norm(norm, attention, experts)] * depth, norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "head_dim": attention.head_width,
            "sliding_window": window_size(architecture),
            **write_rope(attention.rotary),
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "hidden_act": written_activation(architecture),
        }
    )


FAMILIES = (
    Family(
        "mixtral",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, NUMBERED, NORMS, EXPERTS_NORM),
        "MixtralForCausalLM",
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
)
