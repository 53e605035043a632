"""Granite 3 MoE: Granite's four multipliers, a softmax over the experts chosen, stored fused; and a shared expert or none."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    blocks_of,
    decoder,
    first,
    heads,
    shared_expert,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, Experts, Head, RMSNorm, Router, Step
from anyformer.parts.heads import PROJECTIONS

FUSED: Table = {
    "experts.router": "block_sparse_moe.router.layer",
    ("experts.gate", "experts.up"): To("block_sparse_moe.input_linear.weight", Rows(dim=1)),
    "experts.down": "block_sparse_moe.output_linear.weight",
}
SHARED: Table = {
    ("experts.shared.gate", "experts.shared.up"): To("shared_mlp.input_linear", Rows()),
    "experts.shared.down": "shared_mlp.output_linear",
}


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        scale=config("attention_multiplier", 1.0, kind=POSITIVE),
        rotary=read_rotary(rope_parameters(config)),
        dropout=config("attention_dropout", 0.0),
    )
    act, shared = activation(config("hidden_act", "silu")), config("shared_intermediate_size", 0)
    experts = Experts(
        experts=config("num_local_experts", 8),
        chosen=config("num_experts_per_tok", 2),
        width=config("intermediate_size"),
        activation=act,
        router=Router(over="chosen"),
        shared=shared_expert(shared, act) if shared else None,
    )
    multiplier = float(config("residual_multiplier", 1.0))
    branches = {each.kind: Branch(norm_before=norm, sublayer=each, multiplier=multiplier) for each in (attention, experts)}
    block = Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))
    depth = config("num_hidden_layers")
    return decoder(
        config,
        ["layer"] * depth,
        [block] * depth,
        norm,
        scale=float(config("embedding_multiplier", 1.0)),
        head=Head(scale=1 / config("logits_scaling", 1.0)),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    assert experts.shared is None, "this model type has no shared expert"
    return _common(architecture, attention, experts)


def write_shared(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    width = 0 if experts.shared is None else experts.shared.feedforward.width
    return _common(architecture, attention, experts) | {"shared_intermediate_size": width}


def _common(architecture: Architecture, attention: Attention, experts: Experts) -> dict[str, Any]:
    return (
        common(architecture)
        | heads(attention)
        | {
            "num_key_value_heads": attention.kv_heads,
            "attention_bias": bool(attention.bias),
            "attention_multiplier": attention.scale_of(architecture.width),
            "residual_multiplier": blocks_of(architecture)[0].branches["experts"].multiplier,
            "embedding_multiplier": get(architecture, "embedding.scale"),
            "logits_scaling": 1 / get(architecture, "head.scale"),
            **write_rope(attention.rotary),
            "hidden_act": written_activation(architecture),
            "num_local_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "intermediate_size": experts.width,
        }
    )


FAMILIES = (
    Family(
        "granitemoe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FUSED, NORMS, EXPERTS_NORM),
        "GraniteMoeForCausalLM",
    ),
    Family(
        "granitemoeshared",
        read,
        write_shared,
        lambda architecture: decoder_names(ATTENTION, FUSED, SHARED, NORMS, EXPERTS_NORM),
        "GraniteMoeSharedForCausalLM",
    ),
)
