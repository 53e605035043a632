"""Qwen3-Next's line: gated attention, experts beside a gated one, and names of layers with gated delta nets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import GroupedRows, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words import DELTA, SIDES
from anyformer.huggingface.words.names import (
    ATTENTION,
    FEEDFORWARD,
    NORMS,
    QK_NORM,
    ROUTED,
    fused_convolutions,
    joined,
    shared_names,
)
from anyformer.huggingface.words.rope import SHARE, rope_table_with_share
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Gate, QKNorm, RMSNorm, Router

QKV = tuple(f"{DELTA}.{side}" for side in SIDES)
GATE, BETA, DECAY = (f"{DELTA}.{name}" for name in ("gate.projection", "beta", "decay.projection"))


def gated_attention(config: Config, norm: RMSNorm, kv_heads: int, share: float = 0.25) -> Attention:
    """Attention with normed heads and a gate of each feature; `share`: of a head that rotates, where no key says it."""
    table = words.rope_parameters(config, at=rope_table_with_share)
    rotary, biased = words.with_share(table, config(SHARE, share)), bool(config("attention_bias", False))
    usual: dict[str, Any] = {"heads": 16, "kv_heads": kv_heads, "head_width": 256}
    return words.attention(config, **usual, qk_norm=QKNorm(norm=norm), rotary=rotary, gate=Gate(bias=biased))


def gated_experts(config: Config, *, renormalises: bool, **absent: Any) -> Experts:
    """Experts beside a shared one of a width and a gate of its own."""
    router = Router(renormalise=words.EXACT if renormalises else None)
    experts = words.experts(config, router, width=512, counted=("num_experts",), **absent)
    return words.shared_of_width(config, experts, 512, gate="sigmoid")


def separate(heads: int) -> Table:
    """Projections of Qwen3.5: queries, keys and values fused, the others separate."""
    return {
        QKV: To("linear_attn.in_proj_qkv", Rows()),
        GATE: "linear_attn.in_proj_z",
        BETA: "linear_attn.in_proj_b",
        DECAY: "linear_attn.in_proj_a",
    }


def layer_names(projections: Callable[[int], Table], architecture: Architecture) -> Table:
    """Names of the layers; `projections`: of those of delta nets, by key heads."""
    target = Target(architecture)
    kernel = target.get(f"{DELTA}.convolution.kernel", 0)
    own: Table = {
        ("attention.query", "attention.gate.projection"): To("self_attn.q_proj", GroupedRows(target.get("attention.heads", 1))),
        **shared_names("mlp.shared_expert"),
        "experts.shared_gate": "mlp.shared_expert_gate",
        f"{DELTA}.norm_before": "input_layernorm",
        tuple(f"{side}_convolution" for side in QKV): To("linear_attn.conv1d", fused_convolutions(kernel)),
        f"{DELTA}.decay.A_log": "linear_attn.A_log",
        f"{DELTA}.decay.dt_bias": "linear_attn.dt_bias",
        f"{DELTA}.norm": "linear_attn.norm",
        f"{DELTA}.output": "linear_attn.out_proj",
    }
    others = {ours: theirs for ours, theirs in ATTENTION.items() if ours != "attention.query"}
    usual = joined(others, QK_NORM, FEEDFORWARD, ROUTED, NORMS)
    return joined(usual, own, projections(target.get(f"{DELTA}.heads", 1)))
