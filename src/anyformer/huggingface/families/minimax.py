"""MiniMax-Text-01: lightning attention that forgets more slowly from layer to layer, softmax attention, experts."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    blocks_of,
    first,
    heads,
    one_by_one,
    sublayers,
    window,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.mixers import in_order, kinds, words
from anyformer.huggingface.families.old_llama import ATTENTION, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups as PerHead
from anyformer.huggingface.rules import Names, Table, To
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Experts,
    Gate,
    LightningAttention,
    Renormalise,
    RMSNorm,
    Router,
    Step,
)
from anyformer.parts.branch import Sublayer

BRANCHES = {"lightning": "linear_attention", "attention": "full_attention"}
FACTORS = {"lightning": "linear_attn", "attention": "full_attn", "experts": "mlp"}
"""Branch -> what their factors of the residual (alpha) and of the branch (beta) begin with."""
LIGHTNING: Table = {
    "lightning.norm": "self_attn.norm",
    "lightning.gate.projection": "self_attn.output_gate",
    "lightning.output": "self_attn.out_proj",
}
REST: Table = {
    "step_0_norm_before": "input_layernorm",
    "step_1_norm_before": "post_attention_layernorm",
    "experts.router": "block_sparse_moe.gate",
    **one_by_one("block_sparse_moe.experts", "w1", "w3", "w2"),
}


def names(architecture: Architecture) -> Names:
    """Queries, keys and values of lightning attention stand together head by head."""
    fused: dict[Any, Any] = {
        tuple(f"lightning.{side}" for side in ("query", "key", "value")): To("self_attn.qkv_proj", PerHead(each.heads))
        for each in sublayers(architecture, "lightning")[:1]
    }
    return decoder_names(ATTENTION, LIGHTNING, fused, REST)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32)
    config.expect("router_jitter_noise", 0.0, why="its noise reaches the experts too")
    norm, depth = RMSNorm(eps=config("rms_norm_eps", 1e-5)), config("num_hidden_layers")
    factors = {
        branch: (float(config(f"{word}_alpha_factor", 1)), float(config(f"{word}_beta_factor", 1)))
        for branch, word in FACTORS.items()
    }
    experts, softmax, lightning = _experts(config), _softmax(config), _lightning(config)

    def step(name: str, sublayer: Sublayer) -> Step:
        alpha, beta = factors[name]
        branch = Branch(sublayer=sublayer, multiplier=beta)
        return Step(norm_before=norm, branches=Named({name: branch}), residual="normed", residual_scale=alpha)

    def block(name: str) -> Block:
        """`softmax`, or `lightning_` and the layer's number."""
        i = name.rpartition("_")[2]
        mixer = step("lightning", lightning.but(decay=slope(int(i), depth))) if i.isdigit() else step("attention", softmax)
        return Block(steps=(mixer, step("experts", experts)))

    kind = words(config, "layer_types", lambda i: "linear_attention" if i % 2 else "full_attention")
    called = [f"lightning_{i}" if each == "linear" else "softmax" for i, each in enumerate(kind)]
    return in_order(config, [called], block, norm)


def slope(layer: int, depth: int) -> float:
    """How fast layer `layer`, from 0, forgets: from 1 down to almost nothing."""
    return 1 - layer / (depth - 1 + 1e-5) + 1e-5


def _softmax(config: Config) -> Attention:
    config.expect("partial_rotary_factor", 1.0, None, why="transformers turns whole heads")
    return Attention(
        heads=config("num_attention_heads", 32),
        kv_heads=config("num_key_value_heads", 8),
        head_width=config("head_dim", None),
        mask=window(config),
        rotary=read_rotary(rope_parameters(config, theta=1e6)),
        dropout=config("attention_dropout", 0.0),
    )


def _lightning(config: Config) -> LightningAttention:
    return LightningAttention(
        heads=config("num_attention_heads", 32),
        head_width=config("head_dim", None),
        activation=activation(config("hidden_act", "silu")),
        norm=RMSNorm(eps=1e-6),
        gate=Gate(),
    )


def _experts(config: Config) -> Experts:
    return Experts(
        experts=config("num_local_experts", config("num_experts", 8)),
        chosen=config("num_experts_per_tok", 2),
        width=config("intermediate_size", 14336),
        activation=activation(config("hidden_act", "silu")),
        router=Router(renormalise=Renormalise(eps=0.0)),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    steps = {name: step for block in blocks_of(architecture) for step in block.steps for name in step.branches}
    return {
        **common(architecture),
        **heads(attention),
        **{f"{FACTORS[name]}_alpha_factor": step.residual_scale for name, step in steps.items()},
        **{f"{FACTORS[name]}_beta_factor": step.branches[name].multiplier for name, step in steps.items()},
        "layer_types": kinds(architecture, BRANCHES),
        "head_dim": attention.head_width,
        **write_rope(attention.rotary),
        "sliding_window": window_size(architecture),
        "num_local_experts": experts.experts,
        "num_experts_per_tok": experts.chosen,
        "intermediate_size": experts.width,
        "hidden_act": written_activation(architecture),
    }


FAMILIES = (
    Family(
        "minimax",
        read,
        write,
        names,
        "MiniMaxForCausalLM",
        inert=("block_size",),
        ignored=(r".*self_attn\.(slope_rate|query_decay|key_decay|diagonal_decay)",),
    ),
)
