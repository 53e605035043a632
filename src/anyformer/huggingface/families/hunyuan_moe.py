"""Hunyuan A13B: queries and keys normalised after their rotation, a shared expert as wide as the others."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    decoder,
    first,
    heads,
    label,
    one_by_one,
    shared_expert,
    shared_names,
    sublayers,
    written_activation,
)
from anyformer.huggingface.families.hunyuan import stretched
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Renormalise, RMSNorm, Rotary, Router, pre_norm
from anyformer.parts.heads import PROJECTIONS

_NAMES: Table = {
    "attention.query_norm": "self_attn.query_layernorm",
    "attention.key_norm": "self_attn.key_layernorm",
    "experts.router": "mlp.gate.wg",
    **one_by_one("mlp.experts"),
    **shared_names("mlp.shared_mlp"),
}
_FIXED = {
    "add_classification_head": False, "group_limited_greedy": False, "mlp_bias": False, "moe_layer_num_skipped": 0,
    "norm_type": "rms", "position_embedding_xdrope": False, "use_cla": False, "use_mla": False, "use_mixed_mlp_moe": True,
    "use_qk_norm": True, "use_rotary_pos_emb": True,
}  # fmt: skip
"""Keys of published files that transformers does not look at, and what it computes."""


def read(config: Config) -> Architecture:
    depth, width = config("num_hidden_layers"), config("intermediate_size")
    for key, value in _FIXED.items():
        config.expect(key, value)
    for key, one in (("moe_intermediate_size", width), ("num_shared_expert", 1)):
        config.expect(key, one, [one] * depth)
    norm, act = RMSNorm(eps=config("rms_norm_eps", 1e-5)), activation(config("hidden_act", "silu"))
    count, narrow = config("num_attention_heads"), config("attention_head_dim", None)
    attention = Attention(
        heads=count,
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", None) or narrow or config("hidden_size") // count,
        bias=PROJECTIONS if config("attention_bias", False) else (),
        qk_norm=norm,
        qk_norm_at="after_rotary",
        dropout=config("attention_dropout", 0.0),
    )
    attention = attention.but(rotary=_rotary(config, attention.width_of_head(config("hidden_size"))))
    experts = Experts(
        experts=config("num_experts", 1),
        chosen=1,
        width=width,
        activation=act,
        router=Router(renormalise=Renormalise(eps=0.0)),
        shared=shared_expert(width, act),
    )
    chosen = config("moe_topk", 1)
    tops = chosen if isinstance(chosen, list) else [chosen] * depth
    if len(tops) != depth:
        raise HuggingFaceError(f"{config.where}: moe_topk has {len(tops)} entries for {depth} layers")
    blocks = [pre_norm(norm, attention, experts.but(chosen=top)) for top in tops]
    return decoder(config, label([f"top{top}" for top in tops]), blocks, norm)


def _rotary(config: Config, head_width: int) -> Rotary:
    """With a fixed `alpha` the base is stretched once for all lengths: theta * alpha^(E / (E - 2))."""
    table = rope_parameters(config)
    alpha = table.get("alpha")
    if table["rope_type"] != "dynamic" or not alpha:
        return read_rotary(table, unread=("alpha",))
    return Rotary(theta=stretched(config, float(table["rope_theta"]), alpha, head_width))


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
            "intermediate_size": experts.width,
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "moe_topk": [each.chosen for each in sublayers(architecture, "experts")],
        }
    )


FAMILIES = (
    Family(
        "hunyuan_v1_moe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, _NAMES, NORMS, EXPERTS_NORM),
        "HunYuanMoEV1ForCausalLM",
        inert=("cla_share_factor", "class_num", "eod_token_id", "moe_drop_tokens"),
    ),
)
