"""LFM2, dense and with experts: gated short convolutions, attention in some layers (arXiv 2511.23404)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import dense_first, first, first_dense, heads, one_by_one, sublayers
from anyformer.huggingface.families.mixers import convolved, feedforward_width, in_order, kinds, words
from anyformer.huggingface.families.old_llama import OUTSIDE, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Correction,
    Experts,
    FeedForward,
    GatedConvolution,
    Renormalise,
    RMSNorm,
    Router,
    ShortConvolution,
    TopK,
    pre_norm,
)
from anyformer.parts.branch import Sublayer
from anyformer.parts.gated_convolution import PROJECTIONS

BRANCHES = {"gated_convolution": "conv", "attention": "full_attention"}
TABLE: Table = {
    "attention.norm_before": "operator_norm",
    "gated_convolution.norm_before": "operator_norm",
    "feedforward.norm_before": "ffn_norm",
    "experts.norm_before": "ffn_norm",
    **{f"attention.{side}": f"self_attn.{side[0]}_proj" for side in ("query", "key", "value")},
    "attention.output": "self_attn.out_proj",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    tuple(f"gated_convolution.{side}" for side in PROJECTIONS[:3]): To("conv.in_proj", Rows()),
    "gated_convolution.convolution.bias": "conv.conv.bias",
    "gated_convolution.output": "conv.out_proj",
    "feedforward.gate": "feed_forward.w1",
    "feedforward.up": "feed_forward.w3",
    "feedforward.down": "feed_forward.w2",
    "experts.router": "feed_forward.gate",
    "experts.router.correction": "feed_forward.expert_bias",
    **one_by_one("feed_forward.experts", "w1", "w3", "w2"),
}


def names(architecture: Architecture) -> Names:
    """The norm before the head is called after the embedding."""
    kernel = next((each.convolution.kernel for each in sublayers(architecture, "gated_convolution")), 0)
    convolution: Table = {"gated_convolution.convolution.weight": To("conv.conv.weight", convolved(kernel))}
    return decoder_names(TABLE, convolution, outside={**OUTSIDE, "decoder.final_norm": "model.embedding_norm"})


def read_dense(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2560, num_hidden_layers=32)
    depth = config("num_hidden_layers")
    attends = config("full_attn_idxs", None)
    attends = range(depth) if attends is None else attends
    mixers = words(config, "layer_types", lambda i: "full_attention" if i in attends else "conv")
    return _decoder(config, mixers, ["dense"] * depth, {"dense": FeedForward(width=_width(config))})


def _width(config: Config) -> int:
    """The feed-forward network's: as given, or two thirds of it, stretched and rounded up."""
    width: int = config("block_ff_dim", None) or config("intermediate_size", 12288)
    stretch, step = config("block_ffn_dim_multiplier", 1.0), config("block_multiple_of", 256)
    if not config("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    return width if stretch is None else -(-int(stretch * width) // step) * step


def read_moe(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2048, num_hidden_layers=32)
    networks: dict[str, Sublayer] = {
        "dense": FeedForward(width=config("intermediate_size", 7168)),
        "experts": _experts(config),
    }
    mixers = words(config, "layer_types", lambda i: "full_attention")
    return _decoder(config, mixers, dense_first(config, "num_dense_layers", 2), networks)


def _experts(config: Config) -> Experts:
    correction = Correction() if config("use_expert_bias", True) else None
    return Experts(
        experts=config("num_experts", 32),
        chosen=config("num_experts_per_tok", 4),
        width=config("moe_intermediate_size", 1792),
        router=Router(
            score="sigmoid",
            choice=TopK(correction=correction),
            renormalise=Renormalise(eps=1e-6) if config("norm_topk_prob", True) else None,
            scale=float(config("routed_scaling_factor", 1.0)),
        ),
    )


def _decoder(config: Config, mixers: list[str], mlps: list[str], networks: Any) -> Architecture:
    """Convolution or attention, then a network."""
    config.expect("block_use_swiglu", True)
    config.expect("use_pos_enc", True)
    norm = RMSNorm(eps=config("norm_eps", 1e-5))
    convolution = ShortConvolution(kernel=config("conv_L_cache", 3), bias=config("conv_bias", False))
    sublayers: dict[str, Sublayer] = networks | {
        "convolution": GatedConvolution(convolution=convolution, bias=PROJECTIONS if convolution.bias else ()),
        "full": Attention(
            heads=config("num_attention_heads", 32),
            kv_heads=config("num_key_value_heads", 8),
            head_width=config("head_dim", None),
            qk_norm=norm,
            rotary=read_rotary(rope_parameters(config, theta=1e6)),
        ),
    }
    tied = config("tie_embedding", True)
    return in_order(config, [mixers, mlps], lambda *names: pre_norm(norm, *(sublayers[n] for n in names)), norm, tied=tied)


def write_dense(architecture: Architecture) -> dict[str, Any]:
    feedforward: FeedForward = first(architecture, "feedforward")
    return _written(architecture) | {"intermediate_size": feedforward.width, "block_auto_adjust_ff_dim": False}


def write_moe(architecture: Architecture) -> dict[str, Any]:
    experts: Experts = first(architecture, "experts")
    return _written(architecture) | {
        "intermediate_size": feedforward_width(architecture, experts.width),
        "num_dense_layers": first_dense(architecture),
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.chosen,
        "moe_intermediate_size": experts.width,
        "use_expert_bias": experts.router.choice.correction_rule is not None,
        "norm_topk_prob": experts.router.renormalise is not None,
        "routed_scaling_factor": experts.router.scale,
    }


def _written(architecture: Architecture) -> dict[str, Any]:
    """What both write alike."""
    attention: Attention = first(architecture, "attention")
    convolution: GatedConvolution = first(architecture, "gated_convolution")
    written = {
        **common(architecture),
        **heads(attention),
        **write_rope(attention.rotary),
        "conv_L_cache": convolution.convolution.kernel,
        "conv_bias": convolution.convolution.bias,
        "layer_types": kinds(architecture, BRANCHES),
    }
    del written["attention_dropout"]
    return written | {"norm_eps": written.pop("rms_norm_eps")}


INERT = (
    "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_xavier_init", "conv_dim",
    "conv_dim_out", "conv_use_xavier_init", "num_heads",
)  # fmt: skip
"""Of older files: how weights start, and what other keys say too."""

FAMILIES = (
    Family("lfm2", read_dense, write_dense, names, "Lfm2ForCausalLM", inert=INERT),
    Family("lfm2_moe", read_moe, write_moe, names, "Lfm2MoeForCausalLM", inert=INERT),
)
