"""Cohere 2 MoE: attention and experts in parallel after one norm, rotary positions in windows, shared experts averaged in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    ROUTED,
    SHARED,
    decoder,
    dense_width,
    first,
    heads,
    label,
    layer_types,
    layer_words,
    mlp_words,
    shared_count,
    shared_expert,
    sublayers,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Experts,
    FeedForward,
    Head,
    LayerNorm,
    Renormalise,
    RMSNorm,
    Router,
    TopK,
    Window,
    parallel,
)
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.norm import Norm

_NORM: Table = {"step_0_norm_before": "input_layernorm"}
_JOINS = {"average": "mean", "sum": "sum"}


def read(config: Config) -> Architecture:
    config.expect("rope_scaling", None, why="transformers looks at rope_parameters alone")
    dense, size = config("first_k_dense_replace", 0), config("sliding_window", 4096)
    step, early = config("sliding_window_pattern", 4, kind=SIZE), config("prefix_dense_sliding_window_pattern", 1, kind=SIZE)
    seen = layer_words(config, lambda i: SLIDING if ((i + 1) % early if i < dense else (i - dense + 1) % step) else FULL)
    mlps = layer_words(config, lambda i: "dense" if i < dense else "sparse", key="mlp_layer_types")
    full = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        dropout=config("attention_dropout", 0.0),
    )
    turned = full.but(rotary=read_rotary(rope_parameters(config), pairing="adjacent", rotate_in="fp32"))
    attentions = {"full_experts": full, "full_dense": turned if early == 1 else full}
    if "local" in seen:
        attentions |= dict.fromkeys(("local_experts", "local_dense"), turned.but(mask=Window(size=size)))
    norm, wide = _norm(config), _networks(config)
    blocks = [parallel(norm, attentions[f"{word}_{mlp}"], wide[mlp]) for word, mlp in zip(seen, mlps, strict=True)]
    head = Head(scale=float(config("logit_scale", 0.0625)))
    return decoder(config, label(seen, mlps), blocks, norm, tied=True, head=head)


def _norm(config: Config) -> Norm:
    """An RMS norm where its epsilon is given."""
    centred, plain = config("layer_norm_eps", 1e-5), config("rms_norm_eps", None)
    return LayerNorm(eps=centred, bias=False) if plain is None else RMSNorm(eps=plain)


def _networks(config: Config) -> Mapping[str, Experts | FeedForward]:
    config.expect("expert_selection_fn", "softmax", "sigmoid")
    config.expect("shared_expert_combination_strategy", *_JOINS)
    act, width = activation(config("hidden_act", "silu")), config("intermediate_size")
    summed = config("norm_topk_prob", True)
    routers = {
        "softmax": Router(over="chosen", choice=TopK(by="logits")),
        "sigmoid": Router(score="sigmoid", choice=TopK(by="logits"), renormalise=Renormalise(eps=0.0) if summed else None),
    }
    count, join = config("num_shared_experts", 0), _JOINS[config("shared_expert_combination_strategy", "average")]
    experts = Experts(
        experts=config("num_experts", 8),
        chosen=config("num_experts_per_tok", 2),
        width=width,
        activation=act,
        router=routers[config("expert_selection_fn", "softmax")],
        shared=shared_expert(count * width, act).but(join=join) if count else None,
    )
    dense = config("prefix_dense_intermediate_size", None)
    return {"experts": experts, "dense": FeedForward(width=width if dense is None else dense, activation=act)}


def write(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    norm = get(architecture, "decoder.final_norm")
    plain = norm.cast == "before_gain"
    kinds, mlps = layer_types(architecture), mlp_words(architecture)
    early = [attention for attention, *of in zip(attentions, kinds, mlps, strict=True) if of == [FULL, "dense"]]
    turning = [attention for attention in attentions if attention.rotary is not None]
    joins = {ours: theirs for theirs, ours in _JOINS.items()}
    return (
        common(architecture)
        | heads(attentions[0])
        | {
            "num_key_value_heads": attentions[0].kv_heads,
            "attention_bias": bool(attentions[0].bias),
            **write_rope(turning[0].rotary if turning else None),
            "layer_types": kinds,
            "mlp_layer_types": mlps,
            "prefix_dense_sliding_window_pattern": 2 if any(attention.rotary is None for attention in early) else 1,
            "sliding_window": window_size(architecture),
            "layer_norm_eps": 1e-5 if plain else norm.eps,
            "rms_norm_eps": norm.eps if plain else None,
            "logit_scale": get(architecture, "head.scale"),
            "hidden_act": written_activation(architecture),
            "intermediate_size": experts.width,
            "prefix_dense_intermediate_size": dense_width(architecture, experts.width),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "num_shared_experts": shared_count(experts),
            "shared_expert_combination_strategy": joins[experts.shared.join] if experts.shared else "average",
            "expert_selection_fn": "softmax" if experts.router.over == "chosen" else "sigmoid",
            "norm_topk_prob": experts.router.over == "chosen" or experts.router.renormalise is not None,
        }
    )


FAMILIES = (
    Family(
        "cohere2_moe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, ROUTED, SHARED, _NORM),
        "Cohere2MoeForCausalLM",
    ),
)
