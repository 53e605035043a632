"""AFMoE, Arcee's Trinity: sandwich norms, gated attention, rotary positions in windows only, DeepSeek-V3's experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    QK_NORMS,
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
    one_by_one,
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
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Correction,
    Experts,
    FeedForward,
    Gate,
    Renormalise,
    RMSNorm,
    Router,
    TopK,
    Window,
    sandwich,
)
from anyformer.parts.heads import PROJECTIONS

_NAMES: Table = {
    "attention.gate.projection": "self_attn.gate_proj",
    "attention.norm_before": "input_layernorm",
    "attention.norm_after": "post_attention_layernorm",
    **{f"{mlp}.norm_before": "pre_mlp_layernorm" for mlp in ("feedforward", "experts")},
    **{f"{mlp}.norm_after": "post_mlp_layernorm" for mlp in ("feedforward", "experts")},
    "experts.router": "mlp.router.gate",
    "experts.router.correction": "mlp.expert_bias",
    **one_by_one("mlp.experts"),
}
_FIXED = {
    "n_group": 1, "topk_group": 1, "num_expert_groups": 1, "num_limited_groups": 1, "route_norm": True, "score_func": "sigmoid",
}  # fmt: skip
"""Keys of published files that transformers does not look at, and what it computes."""


def read(config: Config) -> Architecture:
    for key, value in _FIXED.items():
        config.expect(key, value)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5), cast="after_gain")
    full = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", 128),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        gate=Gate(),
        dropout=config("attention_dropout", 0.0),
    )
    act = activation(config("hidden_act", "silu"))
    width = config("moe_intermediate_size", 1408)
    experts = Experts(
        experts=config("num_experts", 64),
        chosen=config("num_experts_per_tok", 6),
        width=width,
        activation=act,
        router=Router(
            score="sigmoid",
            choice=TopK(correction=Correction()),
            renormalise=Renormalise(),
            scale=float(config("route_scale", 1.0)),
        ),
        shared=shared_expert(config("num_shared_experts", 2) * width, act),
    )
    local = full.but(rotary=read_rotary(rope_parameters(config)), mask=Window(size=config("sliding_window", 1024)))
    attentions = {"full": full, "local": local}
    step = config("global_attn_every_n_layers", 4)
    windows = layer_words(config, lambda i: SLIDING if (i + 1) % step else FULL)
    mlps = dense_first(config, "num_dense_layers", 1)
    feedforward = FeedForward(width=config("intermediate_size", 6144), activation=act)
    wide: Mapping[str, Experts | FeedForward] = {"experts": experts, "dense": feedforward}
    blocks = [sandwich(norm, attentions[a], wide[b]) for a, b in zip(windows, mlps, strict=True)]
    scale = config("hidden_size") ** 0.5 if config("mup_enabled", False) else 1.0
    return decoder(config, label(windows, mlps), blocks, norm, scale=scale)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    turning = [each for each in sublayers(architecture, "attention") if each.rotary is not None]
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "attention_bias": bool(attention.bias),
            **write_rope(turning[0].rotary if turning else None),
            "layer_types": layer_types(architecture),
            "sliding_window": window_size(architecture) or 1024,
            "mup_enabled": get(architecture, "embedding.scale") != 1,
            "num_dense_layers": first_dense(architecture),
            "intermediate_size": dense_width(architecture, 6144),
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
            "num_shared_experts": shared_count(experts),
            "route_scale": experts.router.scale,
        }
    )


FAMILIES = (
    Family(
        "afmoe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, FEEDFORWARD, SHARED, _NAMES),
        "AfmoeForCausalLM",
        inert=("load_balance_coeff", "use_grouped_mm"),
    ),
)
