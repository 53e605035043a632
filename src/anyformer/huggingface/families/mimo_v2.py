"""MiMo-V2-Flash (arXiv 2601.02780): narrow scaled values, windows with sinks and twice the key-value heads, V3's router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    CORRECTION,
    EXPERTS_NORM,
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
    read_router,
    sublayers,
    window_size,
    write_partial,
    write_router,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.families.qwen_moe import QKV
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import FULL, SLIDING, activation
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, FeedForward, RMSNorm, Window, pre_norm

_SINK: Table = {"attention.sink": "self_attn.attention_sink_bias"}
FRACTION = 0.334
_ROPE: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "default", "rope_theta": 5_000_000.0, "partial_rotary_factor": FRACTION},
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": FRACTION},
}


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    windows = layer_words(config, lambda i: FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING)
    mlps = layer_words(config, lambda i: "sparse" if i else "dense", key="mlp_layer_types")
    attentions, wide = _attentions(config), _networks(config)
    _agree(config, attentions["local"], windows, mlps)
    blocks = [pre_norm(norm, attentions[seen], wide[mlp]) for seen, mlp in zip(windows, mlps, strict=True)]
    return decoder(config, label(windows, mlps), blocks, norm)


def _agree(config: Config, local: Attention, windows: Sequence[str], mlps: Sequence[str]) -> None:
    """Keys of published files that transformers does not look at must say what it computes."""
    said = {
        "add_full_attention_sink_bias": False, "add_swa_attention_sink_bias": True, "layernorm_epsilon": 1e-5,
        "n_shared_experts": None, "partial_rotary_factor": FRACTION, "rope_theta": _ROPE[FULL]["rope_theta"],
        "scoring_func": "sigmoid", "swa_head_dim": local.head_width, "swa_num_attention_heads": local.heads,
        "swa_num_key_value_heads": local.kv_heads, "swa_rope_theta": _ROPE[SLIDING]["rope_theta"],
        "swa_v_head_dim": local.value_width, "topk_method": "noaux_tc",
        "hybrid_layer_pattern": [int(word == "local") for word in windows],
        "moe_layer_freq": [int(word == "experts") for word in mlps],
    }  # fmt: skip
    for key, value in said.items():
        config.expect(key, value)


def _attentions(config: Config) -> dict[str, Attention]:
    """Of layers that see all, and of windows."""
    tables = config("rope_parameters", None) or _ROPE
    strange = sorted(set(tables) - set(_ROPE))
    if strange:
        raise HuggingFaceError(f"{config.where}: rope_parameters has {', '.join(strange)} beside {' and '.join(_ROPE)}")
    rotaries = {WORDS[kind]: read_partial(table, FRACTION) for kind, table in tables.items() if table is not None}
    groups, scale = config("num_key_value_heads", 4, kind=SIZE), config("attention_value_scale", 0.707)
    size, before = config("sliding_window", 129), config("sliding_window_size", None)
    full = Attention(
        heads=config("num_attention_heads"),
        kv_heads=groups,
        head_width=config("head_dim", 192),
        value_width=config("v_head_dim", 128),
        value_scale=1.0 if scale is None else float(scale),
        bias=QKV if config("attention_bias", False) else (),
        rotary=rotaries.get("full"),
        dropout=config("attention_dropout", 0.0),
    )
    mask = Window(size=size if before is None else before + 1)
    return {"full": full, "local": full.but(kv_heads=2 * groups, rotary=rotaries.get("local"), mask=mask, sink="head")}


def _networks(config: Config) -> dict[str, Experts | FeedForward]:
    """What a layer holds after its attention."""
    act = activation(config("hidden_act", "silu"))
    experts = Experts(
        experts=config("n_routed_experts", 256),
        chosen=config("num_experts_per_tok", 8),
        width=config("moe_intermediate_size", 2048),
        activation=act,
        router=read_router(config),
    )
    return {"experts": experts, "dense": FeedForward(width=config("intermediate_size", 16384), activation=act)}


def write(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    kinds = layer_types(architecture)
    tables = {kind: write_partial(attention)["rope_parameters"] for kind, attention in zip(kinds, attentions, strict=True)}
    size = window_size(architecture)
    return (
        common(architecture)
        | heads(attentions[0])
        | write_router(experts.router)
        | {
            "num_key_value_heads": attentions[0].groups // (1 if kinds[0] == FULL else 2),
            "v_head_dim": attentions[0].value_width,
            "attention_value_scale": attentions[0].value_scale,
            "attention_bias": bool(attentions[0].bias),
            "rope_parameters": {**_ROPE, **tables},
            "layer_types": kinds,
            "mlp_layer_types": mlp_words(architecture),
            "sliding_window": 129 if size is None else size,
            "intermediate_size": dense_width(architecture, 16384),
            "hidden_act": written_activation(architecture),
            "n_routed_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
        }
    )


FAMILIES = (
    Family(
        "mimo_v2_flash",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, _SINK, FEEDFORWARD, ROUTED, CORRECTION, NORMS, EXPERTS_NORM),
        "MiMoV2FlashForCausalLM",
        inert=("attention_chunk_size", "hybrid_block_size"),
        ignored=(r"model\.mtp\..*",),
    ),
)
