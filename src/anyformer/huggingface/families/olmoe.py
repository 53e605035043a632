"""OLMoE (arXiv 2409.02060) and FlexOlmo (2507.07024): OLMo's norm of whole projections, experts in every layer."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import EXPERTS_NORM, QK_NORMS, ROUTED, decoder, first, heads, written_activation
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Renormalise, RMSNorm, Router, output_norm, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTPUT_NORMS: Table = {
    "attention.norm_after": "post_attention_layernorm",
    "experts.norm_after": "post_feedforward_layernorm",
}


def read_olmoe(config: Config) -> Architecture:
    config.expect("clip_qkv", None, why="it bounds queries and keys after their norm, here they are bounded before it")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    attention = _attention(config, norm).but(rotary=read_rotary(rope_parameters(config)))
    depth = config("num_hidden_layers")
    block = pre_norm(norm, attention, _experts(config, count=64, chosen=8))
    return decoder(config, ["layer"] * depth, [block] * depth, norm)


def read_flex(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), cast="after_gain")
    rotary = read_rotary(rope_parameters(config, theta=5e5), rotate_in="fp32")
    attention = _attention(config, norm).but(rotary=rotary)
    depth = config("num_hidden_layers")
    block = output_norm(norm, attention, _experts(config, count=7, chosen=5))
    return decoder(config, ["layer"] * depth, [block] * depth, norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "attention_bias": bool(attention.bias),
            **write_rope(attention.rotary),
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "norm_topk_prob": experts.router.renormalise is not None,
            "pad_token_id": None,  # what an absent one means may be beyond the vocabulary
        }
    )


def _attention(config: Config, norm: RMSNorm) -> Attention:
    return Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        qk_norm_over="projection",
        dropout=config("attention_dropout", 0.0),
    )


def _experts(config: Config, *, count: int, chosen: int) -> Experts:
    """The experts; the keywords are what absent keys mean."""
    return Experts(
        experts=config("num_experts", config("num_local_experts", count)),
        chosen=config("num_experts_per_tok", chosen),
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "silu")),
        router=Router(renormalise=Renormalise(eps=0.0) if config("norm_topk_prob", False) else None),
    )


FAMILIES = (
    Family(
        "olmoe",
        read_olmoe,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, ROUTED, NORMS, EXPERTS_NORM),
        "OlmoeForCausalLM",
    ),
    Family(
        "flex_olmo",
        read_flex,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, ROUTED, OUTPUT_NORMS),
        "FlexOlmoForCausalLM",
    ),
)
