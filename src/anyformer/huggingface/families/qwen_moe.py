"""Qwen 1.5, 2 and 3 MoE: Qwen's attention, many small experts, beside them one that all tokens pass or none."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    decoder,
    dense_width,
    expert_layers,
    first,
    heads,
    label,
    layer_types,
    layer_words,
    shared_names,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    Experts,
    FeedForward,
    Renormalise,
    RMSNorm,
    Router,
    SharedExpert,
    Window,
    pre_norm,
)
from anyformer.parts.heads import PROJECTIONS

QKV = PROJECTIONS[:3]


def read_qwen2(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 16),
        head_width=config("head_dim", None),
        bias=QKV if config("qkv_bias", True) else (),
        rotary=read_rotary(rope_parameters(config)),
        dropout=config("attention_dropout", 0.0),
    )
    act = activation(config("hidden_act", "silu"))
    shared = FeedForward(width=config("shared_expert_intermediate_size", 5632), activation=act)
    experts = _experts(config, chosen=4, count=60, width=1408).but(shared=SharedExpert(feedforward=shared, gate="sigmoid"))
    slides, size, most = config("use_sliding_window", False), config("sliding_window", 4096), config("max_window_layers", 28)
    windows = layer_words(config, lambda i: SLIDING if slides and i % 2 == 0 and i < most else FULL)
    wide = {"full": attention} | ({"local": attention.but(mask=Window(size=size))} if "local" in windows else {})
    mlps = _mlps(config)
    feedforward = FeedForward(width=config("intermediate_size", 5632), activation=act)
    blocks: list[Block] = [
        pre_norm(norm, wide[seen], experts if mlp == "experts" else feedforward)
        for seen, mlp in zip(windows, mlps, strict=True)
    ]
    return decoder(config, label(windows, mlps), blocks, norm)


def write_qwen2(architecture: Architecture) -> dict[str, Any]:
    experts: Experts = first(architecture, "experts")
    assert experts.shared is not None, "the experts have no shared one beside them"
    size = window_size(architecture)
    return _common(architecture, default=5632) | {
        "qkv_bias": bool(first(architecture, "attention").bias),
        "shared_expert_intermediate_size": experts.shared.feedforward.width,
        "layer_types": layer_types(architecture),
        "use_sliding_window": size is not None,
        "sliding_window": size,
    }


def read_qwen3(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    size = config("sliding_window", 4096)
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 4),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        mask=Window(size=size) if config("use_sliding_window", False) else Causal(),
        rotary=read_rotary(rope_parameters(config)),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(width=config("intermediate_size", 6144), activation=activation(config("hidden_act", "silu")))
    made = {"dense": pre_norm(norm, attention, feedforward)}
    made["experts"] = pre_norm(norm, attention, _experts(config, chosen=8, count=128, width=768))
    mlps = _mlps(config)
    return decoder(config, label(mlps), [made[mlp] for mlp in mlps], norm)


def write_qwen3(architecture: Architecture) -> dict[str, Any]:
    size = window_size(architecture)
    return _common(architecture, default=6144) | {
        "attention_bias": bool(first(architecture, "attention").bias),
        "use_sliding_window": size is not None,
        "sliding_window": size,
    }


def _experts(config: Config, *, chosen: int, count: int, width: int) -> Experts:
    """The experts; the keywords are what absent keys mean."""
    return Experts(
        experts=config("num_experts", config("num_local_experts", count)),
        chosen=config("num_experts_per_tok", chosen),
        width=config("moe_intermediate_size", width),
        activation=activation(config("hidden_act", "silu")),
        router=Router(renormalise=Renormalise(eps=0.0) if config("norm_topk_prob", False) else None),
    )


def _mlps(config: Config) -> list[str]:
    """What each layer holds after its attention."""
    step, dense = config("decoder_sparse_step", 1, kind=SIZE), config("mlp_only_layers", None) or []
    return ["experts" if i not in dense and (i + 1) % step == 0 else "dense" for i in range(config("num_hidden_layers"))]


def _common(architecture: Architecture, *, default: int) -> dict[str, Any]:
    """What both write alike. `default`: the width of dense layers where there are none."""
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            **write_rope(attention.rotary),
            "hidden_act": written_activation(architecture),
            "intermediate_size": dense_width(architecture, default),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
            "norm_topk_prob": experts.router.renormalise is not None,
            "mlp_only_layers": [i for i, sparse in enumerate(expert_layers(architecture)) if not sparse],
        }
    )


_TABLES = (ATTENTION, FEEDFORWARD, ROUTED, NORMS, EXPERTS_NORM)
_SHARED = {"experts.shared_gate": "mlp.shared_expert_gate", **shared_names("mlp.shared_expert")}

FAMILIES = (
    Family(
        "qwen2_moe",
        read_qwen2,
        write_qwen2,
        lambda architecture: decoder_names(*_TABLES, _SHARED),
        "Qwen2MoeForCausalLM",
    ),
    Family(
        "qwen3_moe",
        read_qwen3,
        write_qwen3,
        lambda architecture: decoder_names(*_TABLES, QK_NORMS),
        "Qwen3MoeForCausalLM",
        inert=("max_window_layers",),
    ),
)
