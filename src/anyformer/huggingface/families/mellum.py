"""Mellum 2: Qwen 3 MoE with windows, rotary settings for each type of layer, and dense layers where asked for."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.decoder import rope_by_type, write_rope_by_type
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    WORDS,
    decoder,
    dense_width,
    first,
    heads,
    label,
    layer_types,
    layer_words,
    mlp_words,
    sublayers,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary
from anyformer.model import Architecture
from anyformer.parts import Attention, Causal, Experts, FeedForward, Renormalise, RMSNorm, Router, Window, pre_norm
from anyformer.parts.heads import PROJECTIONS

THETAS = {FULL: 500_000.0, SLIDING: 10_000.0}
WINDOW, WIDTH = 1024, 7168


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    windows = layer_words(config, lambda i: FULL)
    networks = layer_words(config, lambda i: "sparse", key="mlp_layer_types")
    config.expect("rope_scaling", None)
    rotaries = {WORDS[kind]: read_rotary(table) for kind, table in rope_by_type(config, THETAS).items()}
    masks = {"full": Causal(), "local": Window(size=config("sliding_window", WINDOW))}
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 4),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        dropout=config("attention_dropout", 0.0),
    )
    act = activation(config("hidden_act", "silu"))
    experts = Experts(
        experts=config("num_experts", config("num_local_experts", 64)),
        chosen=config("num_experts_per_tok", 8),
        width=config("moe_intermediate_size", 896),
        activation=act,
        router=Router(renormalise=Renormalise(eps=0.0) if config("norm_topk_prob", True) else None),
    )
    wide: dict[str, Experts | FeedForward] = {
        "experts": experts,
        "dense": FeedForward(width=config("intermediate_size", WIDTH), activation=act),
    }
    blocks = [
        pre_norm(norm, attention.but(rotary=rotaries[seen], mask=masks[seen]), wide[network])
        for seen, network in zip(windows, networks, strict=True)
    ]
    return decoder(config, label(windows, networks), blocks, norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return {
        **common(architecture),
        **heads(attentions[0]),
        "attention_bias": bool(attentions[0].bias),
        **write_rope_by_type(architecture),
        "layer_types": layer_types(architecture),
        "mlp_layer_types": mlp_words(architecture),
        "sliding_window": window_size(architecture) or WINDOW,
        "intermediate_size": dense_width(architecture, WIDTH),
        "hidden_act": written_activation(architecture),
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.chosen,
        "moe_intermediate_size": experts.width,
        "norm_topk_prob": experts.router.renormalise is not None,
    }


FAMILIES = (
    Family(
        "mellum",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, FEEDFORWARD, ROUTED, NORMS, EXPERTS_NORM),
        "MellumForCausalLM",
        # A further layer that predicts a second token, which the model does without.
        inert=("num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types", "mtp_mlp_layer_types"),
        ignored=(r"mtp\..*",),
    ),
)
