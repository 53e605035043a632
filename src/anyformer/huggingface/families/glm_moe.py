"""GLM 4.5 (arXiv 2508.06471), Solar Open and dots.llm1 (2506.05767): grouped-query attention and DeepSeek-V3's experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    CORRECTION,
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    SHARED,
    decoder,
    dense_first,
    dense_width,
    first,
    first_dense,
    heads,
    label,
    layer_types,
    layer_words,
    partial_rotary,
    read_router,
    shared_count,
    shared_expert,
    window_size,
    write_partial,
    write_router,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.families.qwen_moe import QKV
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, FeedForward, RMSNorm, Router, Window, pre_norm
from anyformer.parts.heads import PROJECTIONS


def read_glm4(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    attention = read_attention(config, kv_heads=8).but(
        bias=QKV if config("attention_bias", False) else (),
        qk_norm=norm if config("use_qk_norm", False) else None,
        rotary=partial_rotary(config, 0.5),
    )
    count, shared = config("n_routed_experts", 128), config("n_shared_experts", 1)
    experts = read_experts(config, read_router(config), count=count, shared=shared)
    mlps = dense_first(config, "first_k_dense_replace", 1)
    return layered(config, norm, {"": attention}, [""] * len(mlps), mlps, experts, dense=10944)


def write_glm4(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    return _counts(architecture) | {
        "intermediate_size": dense_width(architecture, 10944),
        **write_partial(attention),
        "use_qk_norm": attention.qk_norm is not None,
        "first_k_dense_replace": first_dense(architecture),
    }


def read_solar(config: Config) -> Architecture:
    config.expect("use_qk_norm", False)
    norm, rotary = RMSNorm(eps=config("rms_norm_eps", 1e-5)), partial_rotary(config, 1.0, theta=1e6)
    if rotary.fraction != 1:
        raise HuggingFaceError(f"{config.where}: partial_rotary_factor is {rotary.fraction}; solar_open turns whole heads")
    attention = read_attention(config, kv_heads=8, head_width=128).but(
        bias=QKV if config("attention_bias", False) else (), rotary=rotary
    )
    count, shared = config("n_routed_experts", 128), config("n_shared_experts", 1)
    experts = read_experts(config, read_router(config), count=count, shared=shared, width=1280)
    mlps = dense_first(config, "first_k_dense_replace", 0)
    if "dense" in mlps:
        raise HuggingFaceError(f"{config.where}: first_k_dense_replace: solar_open has experts in all layers")
    return layered(config, norm, {"": attention}, [""] * len(mlps), mlps, experts, dense=10944)


def write_solar(architecture: Architecture) -> dict[str, Any]:
    return _counts(architecture) | write_rope(first(architecture, "attention").rotary)


def read_dots1(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    attention = read_attention(config, kv_heads=32).but(
        bias=PROJECTIONS if config("attention_bias", False) else (), qk_norm=norm, rotary=read_rotary(rope_parameters(config))
    )
    router = read_router(config, renormalises=False)
    experts = read_experts(config, router, count=config("n_routed_experts"), shared=config("n_shared_experts"))
    size, most = config("sliding_window", 4096), config("max_window_layers", 62)
    windows = layer_words(config, lambda i: SLIDING if size is not None and i >= most else FULL)
    kinds = {"full": attention} | ({"local": attention.but(mask=Window(size=size))} if "local" in windows else {})
    mlps = dense_first(config, "first_k_dense_replace", 0)
    return layered(config, norm, kinds, windows, mlps, experts, dense=10944)


def write_dots1(architecture: Architecture) -> dict[str, Any]:
    return _counts(architecture) | {
        "intermediate_size": dense_width(architecture, 10944),
        **write_rope(first(architecture, "attention").rotary),
        "first_k_dense_replace": first_dense(architecture),
        "layer_types": layer_types(architecture),
        "sliding_window": window_size(architecture),
    }


def read_attention(config: Config, *, kv_heads: int, head_width: int | None = None) -> Attention:
    """What all of them read; the keywords are the defaults of absent keys."""
    return Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", kv_heads),
        head_width=config("head_dim", head_width),
        dropout=config("attention_dropout", 0.0),
    )


def read_experts(config: Config, router: Router, *, count: int, shared: int, chosen: int = 8, width: int = 1408) -> Experts:
    """The experts, and `shared` more of their width that every token passes."""
    for key, values in _FIXED.items():
        config.expect(key, *values)
    act = activation(config("hidden_act", "silu"))
    width = config("moe_intermediate_size", width)
    return Experts(
        experts=count,
        chosen=config("num_experts_per_tok", chosen),
        width=width,
        activation=act,
        router=router,
        shared=shared_expert(shared * width, act) if shared else None,
    )


def layered(
    config: Config,
    norm: RMSNorm,
    attentions: Mapping[str, Attention],
    seen: Sequence[str],
    mlps: Sequence[str],
    experts: Experts,
    *,
    dense: int,
) -> Architecture:
    """Layers of two axes: which attention, and dense or experts. `dense`: the width of dense layers where none is given."""
    feedforward = FeedForward(width=config("intermediate_size", dense), activation=experts.activation)
    wide: Mapping[str, Experts | FeedForward] = {"experts": experts, "dense": feedforward}
    blocks = [pre_norm(norm, attentions[a], wide[b]) for a, b in zip(seen, mlps, strict=True)]
    return decoder(config, label(seen, mlps), blocks, norm)


def common_keys(architecture: Architecture) -> dict[str, Any]:
    """What all of them write alike."""
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(first(architecture, "attention"))
        | write_router(experts.router)
        | {
            "hidden_act": written_activation(architecture),
            "moe_intermediate_size": experts.width,
            "num_experts_per_tok": experts.chosen,
        }
    )


def _counts(architecture: Architecture) -> dict[str, Any]:
    """What these three call alike."""
    experts: Experts = first(architecture, "experts")
    return common_keys(architecture) | {
        "attention_bias": bool(first(architecture, "attention").bias),
        "n_routed_experts": experts.experts,
        "n_shared_experts": shared_count(experts),
    }


_FIXED: Mapping[str, tuple[Any, ...]] = {
    "scoring_func": ("sigmoid", "noaux_tc"), "topk_method": ("noaux_tc",), "moe_layer_freq": (1,),
}  # fmt: skip
"""Keys of published files that transformers does not look at: what it computes is one of their values."""
_TABLES = (ATTENTION, ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, EXPERTS_NORM)

FAMILIES = (
    Family(
        "glm4_moe",
        read_glm4,
        write_glm4,
        lambda architecture: decoder_names(*_TABLES, QK_NORMS),
        "Glm4MoeForCausalLM",
        inert=("num_mtp_layers", "num_nextn_predict_layers"),
        ignored=(r"model\.layers\.(46|92)\..*",),
    ),
    Family(
        "solar_open",
        read_solar,
        write_solar,
        lambda architecture: decoder_names(*_TABLES),
        "SolarOpenForCausalLM",
    ),
    Family(
        "dots1",
        read_dots1,
        write_dots1,
        lambda architecture: decoder_names(*_TABLES, QK_NORMS),
        "Dots1ForCausalLM",
    ),
)
