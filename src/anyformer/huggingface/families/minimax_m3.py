"""MiniMax-M3's text: blocks of keys chosen by an indexer, one-plus gains, clamped SwiGLU, experts beside a shared one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.target import Place, Target, nowhere
from anyformer.huggingface.vocabulary import MAPPING
from anyformer.huggingface.words.activations import ALPHA
from anyformer.huggingface.words.layers import NETWORKS
from anyformer.huggingface.words.names import ATTENTION, CORRECTION, FUSED_GATE, NORMS, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    BlockIndexer,
    Branch,
    FeedForward,
    QKNorm,
    RMSNorm,
    Rotary,
    Step,
    pre_norm,
)
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.layers.block import Block
from anyformer.parts.sublayer import Sublayer

SPARSE = "minimax_m3_sparse"
"""The type of a layer with an indexer."""
_OLDER: Mapping[str, str] = {
    "sparse_num_index_heads": "index_n_heads",
    "sparse_index_dim": "index_head_dim",
    "sparse_block_size": "index_block_size",
    "sparse_topk_blocks": "index_topk_blocks",
    "sparse_local_block": "index_local_blocks",
}
"""Key of `sparse_attention_config`, in published files -> what it is called beside it."""


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=200_064, hidden_size=6144, num_hidden_layers=60, num_attention_heads=64, intermediate_size=3072,
        dense_intermediate_size=12_288, shared_intermediate_size=3072,
    )  # fmt: skip
    config.expect("hidden_act", "silu", "swigluoai")
    config.expect("swiglu_alpha", ALPHA)
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    network: dict[str, Any] = {
        "activation": "quick_gelu", "clamp": float(config("swiglu_limit", 7.0, "experts.clamp")), "up_offset": 1.0,
    }  # fmt: skip
    norm = words.rms_norm(config, gain="one_plus_weight", cast="after_gain")
    rotary = words.rotary(config, fraction=1.0, theta=5e6)
    full = words.attention(config, kv_heads=4, head_width=128, bias=(), qk_norm=QKNorm(norm=norm), rotary=rotary)
    kinds, networks = _kinds(config)
    sparse = _sparse(config, full, norm) if "sparse" in kinds else full
    router = words.sigmoid_router(config, renormalise=words.EXACT, scale=2.0)
    experts = words.experts(
        config, router, count=128, chosen=4, counted=("num_local_experts", "num_experts"), size="intermediate_size", **network
    )
    experts = words.shared_of_width(config, experts, 3072, "shared_intermediate_size", clamp=network["clamp"], up_offset=1.0)
    dense = FeedForward(width=config("dense_intermediate_size", 12_288, "feedforward.width"), **network)

    def attention(kind: str, _: str) -> Attention:
        return sparse if kind == "sparse" else full

    layers = words.expert_layers(config, norm, attention, experts, dense, kinds, networks, wire=_wire)
    return words.decoder(config, layers, norm)


def _kinds(config: Config) -> tuple[list[str], list[str]]:
    """`sparse` or `full`, and `experts` or `dense`, for every layer."""
    older = config("sparse_attention_config", None, nowhere, kind=MAPPING) or {}
    config.assume(**{key: older[name] for name, key in _OLDER.items() if name in older})
    chosen, routed = older.get("sparse_attention_freq"), config("moe_layer_freq", None, nowhere)
    return (
        words.types(
            config,
            lambda i: SPARSE if chosen and chosen[i] else FULL,
            known={FULL: "full", SPARSE: "sparse"},
            at=lambda target: [SPARSE if _chooses(block) else FULL for block in target.blocks],
        ),
        words.types(config, lambda i: "sparse" if not routed or routed[i] else "dense", "mlp_layer_types", NETWORKS),
    )


def _sparse(config: Config, full: Attention, norm: RMSNorm) -> Attention:
    """The attention of layers with an indexer."""
    width, rotary = config("index_head_dim", 128, _of_choice("head_width")), full.place.get("rotary")
    assert isinstance(rotary, Rotary), "every layer rotates"
    assert full.head_width is not None, "given by a key or its default"
    share = rotary.rotated(full.head_width) / width
    if share > 1:
        raise HuggingFaceError(
            f"{config.where}: index_head_dim = {width} is less than the features that rotate by rope_parameters or rope_scaling"
        )
    config.put(index_n_heads=full.groups)
    config.expect("index_n_heads", full.groups, why="there is an index query per head of keys")
    keep = config("index_topk_blocks", 16, _of_choice("keep"))
    local = config("index_local_blocks", 1, _of_choice("local"))
    if local > keep:
        raise HuggingFaceError(
            f"{config.where}: index_local_blocks = {local} are more than the index_topk_blocks = {keep} that are kept: "
            f"which of them are, is chance"
        )
    choice = BlockIndexer(
        block=config("index_block_size", 128, _of_choice("block")),
        keep=keep,
        local=local,
        head_width=width,
        norm=norm,
        rotary=rotary.but(fraction=share),
    )
    return full.but(choice=choice)


def _chooses(block: Block) -> bool:
    return _choice(block) is not None


def _choice(block: Block) -> BlockChoice | None:
    """How the attention of a layer chooses its keys."""
    branch = block.branches.get("attention")
    return branch.sublayer.score.choice if branch is not None and isinstance(branch.sublayer, Attention) else None


def _of_choice(field: str) -> Place:
    """A field of the first layer's indexer that has one."""

    def found(target: Target) -> Any:
        return getattr(next(choice for block in target.blocks if (choice := _choice(block)) is not None), field)

    return found


def _wire(norm: RMSNorm, attention: Sublayer, network: Sublayer) -> Block:
    """Layers of both kinds of attention have one name for it."""
    first = Step(branches=Named(attention=Branch(norm_before=norm, sublayer=attention)))
    return Block(steps=(first, *pre_norm(norm, network).steps))


_INDEX: Table = {
    f"attention.choice.{ours}": f"self_attn.indexer.{theirs}"
    for ours, theirs in {"query": "q_proj", "key": "k_proj", "query_norm": "q_norm", "key_norm": "k_norm"}.items()
}
_EXPERTS: Table = {
    "experts.router": "mlp.gate",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Rows(dim=1)),
    "experts.down": "mlp.experts.down_proj",
    ("experts.shared.gate", "experts.shared.up"): To("mlp.shared_experts.gate_up_proj", Rows()),
    "experts.shared.down": "mlp.shared_experts.down_proj",
}
FAMILIES = (
    Family(
        "minimax_m3_vl_text",
        read,
        decoder_names(ATTENTION, QK_NORM, _INDEX, _EXPERTS, CORRECTION, FUSED_GATE, NORMS),
        "MiniMaxM3VLForCausalLM",
        inert=("rotary_dim", *_OLDER.values()),
        older_names={
            r"\.block_sparse_moe\.(gate|shared_experts)\.": r".mlp.\1.",
            r"\.block_sparse_moe\.e_score_correction_bias": ".mlp.gate.e_score_correction_bias",
            r"\.block_sparse_moe\.experts\.(\d+)\.w1\.": r".mlp.experts.\1.gate_proj.",
            r"\.block_sparse_moe\.experts\.(\d+)\.w3\.": r".mlp.experts.\1.up_proj.",
            r"\.block_sparse_moe\.experts\.(\d+)\.w2\.": r".mlp.experts.\1.down_proj.",
            r"\.self_attn\.index_([qk]_(?:proj|norm))\.": r".self_attn.indexer.\1.",
        },
    ),
)
