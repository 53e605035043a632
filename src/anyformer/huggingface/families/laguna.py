"""Laguna: softplus gates of heads, whose number differs by layer, rotary positions by kind of layer, capped router logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
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
    read_partial,
    shared_expert,
    shared_names,
    sublayers,
    window_size,
    write_partial,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import FULL, SLIDING, activation
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Causal,
    Correction,
    Experts,
    FeedForward,
    Gate,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    TopK,
    Window,
    pre_norm,
)
from anyformer.parts.heads import PROJECTIONS

_NAMES: Table = {
    "attention.gate.projection": "self_attn.g_proj",
    "experts.router.correction": "mlp.experts.e_score_correction_bias",
    **shared_names("mlp.shared_expert"),
}
_ROPE: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "default", "rope_theta": 500_000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
}
_GATES = {True: "head", "per-head": "head", "per-element": "feature"}


def read(config: Config) -> Architecture:
    config.expect("moe_apply_router_weight_on_input", False)
    depth, width = config("num_hidden_layers"), config("num_attention_heads")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    windows = layer_words(config, lambda i: FULL)
    counts = config("num_attention_heads_per_layer", None) or [width] * depth
    mlps = layer_words(config, lambda i: "sparse" if i else "dense", key="mlp_layer_types")
    rotaries, size = _rotaries(config), config("sliding_window", 512)
    masks = {"full": Causal(), "local": Window(size=size)}
    if set(windows) - set(rotaries) or len(counts) != depth:
        raise HuggingFaceError(
            f"{config.where}: rope_parameters should have a table for each type of layer, and num_attention_heads_per_layer "
            f"{depth} numbers, got {sorted(rotaries)} and {len(counts)}"
        )
    plain = Attention(
        heads=width,
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        gate=Gate.model_validate({"per": _gate(config), "activation": "softplus"}),
        dropout=config("attention_dropout", 0.0),
    )
    wide = _networks(config)
    blocks = [
        pre_norm(norm, plain.but(heads=count, rotary=rotaries[seen], mask=masks[seen]), wide[mlp])
        for seen, count, mlp in zip(windows, counts, mlps, strict=True)
    ]
    return decoder(config, label(windows, [f"heads{count}" for count in counts], mlps), blocks, norm)


def _gate(config: Config) -> str:
    config.expect("gating", *_GATES)
    return _GATES[config("gating", True)]


def _rotaries(config: Config) -> dict[str, Rotary]:
    """Rotary positions by our word for a layer, from a table of settings for each of theirs."""
    tables = config("rope_parameters", None) or _ROPE
    strange = sorted(set(tables) - set(_ROPE))
    if strange:
        raise HuggingFaceError(f"{config.where}: rope_parameters has {', '.join(strange)} beside {' and '.join(_ROPE)}")
    return {WORDS[kind]: read_partial(dict(table)) for kind, table in tables.items() if table is not None}


def _networks(config: Config) -> dict[str, Experts | FeedForward]:
    """What a layer holds after its attention."""
    act, cap = activation(config("hidden_act", "silu")), float(config("moe_router_logit_softcapping", 0.0))
    router = Router(
        score="sigmoid",
        softcap=cap or None,
        choice=TopK(correction=Correction()),
        renormalise=Renormalise(eps=0.0),
        scale=float(config("moe_routed_scaling_factor", 1.0)),
    )
    experts = Experts(
        experts=config("num_experts", 256),
        chosen=config("num_experts_per_tok", 8),
        width=config("moe_intermediate_size", 512),
        activation=act,
        router=router,
        shared=shared_expert(config("shared_expert_intermediate_size", 512), act),
    )
    return {"experts": experts, "dense": FeedForward(width=config("intermediate_size", 8192), activation=act)}


def write(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    assert experts.shared is not None, "the experts have no shared one beside them"
    kinds = layer_types(architecture)
    tables = {kind: write_partial(attention)["rope_parameters"] for kind, attention in zip(kinds, attentions, strict=True)}
    gate = attentions[0].gate
    assert gate is not None, "the heads have no gate"
    return (
        common(architecture)
        | heads(attentions[0])
        | {
            "num_attention_heads_per_layer": [attention.heads for attention in attentions],
            "attention_bias": bool(attentions[0].bias),
            "gating": "per-head" if gate.per == "head" else "per-element",
            "rope_parameters": {**_ROPE, **tables},
            "layer_types": kinds,
            "mlp_layer_types": mlp_words(architecture),
            "sliding_window": window_size(architecture) or 512,
            "intermediate_size": dense_width(architecture, 8192),
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
            "shared_expert_intermediate_size": experts.shared.feedforward.width,
            "moe_routed_scaling_factor": experts.router.scale,
            "moe_router_logit_softcapping": experts.router.softcap or 0.0,
        }
    )


FAMILIES = (
    Family(
        "laguna",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, FEEDFORWARD, ROUTED, NORMS, EXPERTS_NORM, _NAMES),
        "LagunaForCausalLM",
    ),
)
