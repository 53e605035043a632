"""MiniMax-M2: norms of whole projections, rotary positions of half a head, DeepSeek-V3's choice of experts without groups."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    decoder,
    first,
    heads,
    partial_rotary,
    write_partial,
    written_activation,
)
from anyformer.huggingface.families.mixtral import NUMBERED
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import activation
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import Attention, Correction, Experts, Renormalise, RMSNorm, Router, TopK, pre_norm

_CORRECTION: Table = {"experts.router.correction": "block_sparse_moe.e_score_correction_bias"}
_FIXED = {
    "use_qk_norm": True, "qk_norm_type": "per_layer", "use_routing_bias": True, "scoring_func": "sigmoid",
    "shared_intermediate_size": 0, "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_beta": 1.0,
    "layernorm_mlp_beta": 1.0,
}  # fmt: skip
"""Keys of published files that transformers does not look at, and what it computes."""


def read(config: Config) -> Architecture:
    depth, width = config("num_hidden_layers"), config("head_dim", 128, kind=SIZE)
    for key, value in _FIXED.items():
        config.expect(key, value)
    config.expect("attn_type_list", None, [1] * depth)
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    rotated = config("rotary_dim", None)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 8),
        head_width=width,
        qk_norm=norm,
        qk_norm_over="projection",
        rotary=partial_rotary(config, 1.0 if rotated is None else rotated / width, theta=5e6),
        dropout=config("attention_dropout", 0.0),
    )
    experts = Experts(
        experts=config("num_local_experts", config("num_experts", 256)),
        chosen=config("num_experts_per_tok", 8),
        width=config("intermediate_size", 1536),
        activation=activation(config("hidden_act", "silu")),
        router=Router(score="sigmoid", choice=TopK(correction=Correction()), renormalise=Renormalise(eps=0.0)),
    )
    return decoder(config, ["layer"] * depth, [pre_norm(norm, attention, experts)] * depth, norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    return (
        common(architecture)
        | heads(attention)
        | {
            **write_partial(attention),
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
            "hidden_act": written_activation(architecture),
        }
    )


FAMILIES = (
    Family(
        "minimax_m2",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, NUMBERED, _CORRECTION, NORMS, EXPERTS_NORM),
        "MiniMaxM2ForCausalLM",
        inert=(
            "max_model_len",
            "mlp_intermediate_size",
            "mtp_transformer_layers",
            "num_mtp_modules",
            "shared_moe_mode",
            "use_mtp",
        ),
    ),
)
