"""Hunyuan 3: queries and keys normalised before their rotation, one dense layer, DeepSeek-V3's choice without groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    decoder,
    dense_width,
    first,
    heads,
    label,
    layer_words,
    mlp_words,
    one_by_one,
    shared_count,
    shared_expert,
    shared_names,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Correction, Experts, FeedForward, Renormalise, RMSNorm, Router, TopK, pre_norm
from anyformer.parts.feedforward import PROJECTIONS as NETWORK
from anyformer.parts.heads import PROJECTIONS

_NAMES: Table = {
    "experts.router": "mlp.router.gate",
    "experts.router.correction": "mlp.expert_bias",
    **one_by_one("mlp.experts"),
    **shared_names("mlp.shared_mlp"),
}


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        rotary=read_rotary(rope_parameters(config, theta=11_158_840.0)),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(
        width=config("intermediate_size", 13312),
        activation=activation(config("hidden_act", "silu")),
        bias=NETWORK if config("mlp_bias", False) else (),
    )
    width, shared = config("moe_intermediate_size", 1536), config("num_shared_experts", 1)
    experts = Experts(
        experts=config("num_experts", config("num_local_experts", 192)),
        chosen=config("num_experts_per_tok", 8),
        width=width,
        activation=feedforward.activation,
        router=Router(
            score="sigmoid",
            choice=TopK(correction=Correction()),
            renormalise=Renormalise(),
            scale=float(config("router_scaling_factor", 2.826)),
        ),
        shared=shared_expert(shared * width, feedforward.activation, bias=feedforward.bias),
    )
    wide: Mapping[str, Experts | FeedForward] = {"experts": experts, "dense": feedforward}
    mlps = layer_words(config, lambda i: "sparse" if i else "dense", key="mlp_layer_types")
    return decoder(config, label(mlps), [pre_norm(norm, attention, wide[mlp]) for mlp in mlps], norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    assert experts.shared is not None, "the experts have no shared one beside them"
    return (
        common(architecture)
        | heads(attention)
        | {
            "attention_bias": bool(attention.bias),
            **write_rope(attention.rotary),
            "mlp_layer_types": mlp_words(architecture),
            "mlp_bias": bool(experts.shared.feedforward.bias),
            "intermediate_size": dense_width(architecture, 13312),
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
            "num_shared_experts": shared_count(experts),
            "router_scaling_factor": experts.router.scale,
        }
    )


FAMILIES = (
    Family(
        "hy_v3",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, FEEDFORWARD, _NAMES, NORMS, EXPERTS_NORM),
        "HYV3ForCausalLM",
        # In which type two sums of the network's are added: the same numbers, but for their rounding.
        inert=("enable_moe_fp32_combine",),
        ignored=(r"model\.layers\.80\..*",),
    ),
)
