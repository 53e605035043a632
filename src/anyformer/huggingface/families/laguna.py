"""Laguna: softplus gates of heads, number of heads by layer, rotary positions by type of layer, capped router logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, ROUTED, decoder_names, shared_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, Gate, QKNorm

_NAMES: Table = {
    "attention.gate.projection": "self_attn.g_proj",
    "experts.router.correction": "mlp.experts.e_score_correction_bias",
    **shared_names("mlp.shared_expert"),
}
_ROPE: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "default", "rope_theta": 500_000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
}
_TYPES = {"full": FULL, "local": SLIDING}
_GATES = {"per-head": "head", "per-element": "feature", True: "head"}


def read(config: Config) -> Architecture:
    config.assume(sliding_window=512)
    config.expect("moe_apply_router_weight_on_input", False)
    norm, rotary, depth = words.rms_norm(config), words.shares_by_type(config, _ROPE), config("num_hidden_layers")
    kinds = words.windows(config, lambda i: FULL)
    heads = _heads(config).but(qk_norm=QKNorm(norm=norm))
    key = "num_attention_heads_per_layer"
    counts = config(key, None, lambda target: target.each("attention.heads")) or [heads.heads] * depth
    if {_TYPES[kind] for kind in kinds} - set(rotary) or len(counts) != depth:
        raise HuggingFaceError(
            f"{config.where}: rope_parameters should have a table per type of layer, and {key} {depth} numbers, "
            f"got {sorted(rotary)} and {len(counts)}"
        )
    experts, dense = _experts(config), words.feedforward(config, width=8192)

    def attention(kind: str, count: str, _: str) -> Attention:
        return heads.but(heads=int(count.removeprefix("heads")), rotary=rotary[_TYPES[kind]], mask=words.mask(config, kind))

    numbers, networks = [f"heads{count}" for count in counts], words.mlp_types(config, 1)
    layers = words.expert_layers(config, norm, attention, experts, dense, kinds, numbers, networks)
    return words.decoder(config, layers, norm)


def _heads(config: Config) -> Attention:
    config.expect("gating", *_GATES)
    back = {ours: theirs for theirs, ours in reversed(_GATES.items())}
    per: Any = _GATES[config("gating", True, lambda target: back[target("attention.gate.per")])]
    return words.attention(config, kv_heads=8, head_width=128, gate=Gate(per=per, activation="softplus"))


def _experts(config: Config) -> Experts:
    cap = float(config("moe_router_logit_softcapping", 0.0, lambda target: target("experts.router.softcap") or 0.0))
    key = "moe_routed_scaling_factor"
    router = words.sigmoid_router(config, renormalise=words.EXACT, key=key, softcap=cap or None)
    experts = words.experts(config, router, count=256, chosen=8, width=512, counted=("num_experts",))
    return words.shared_of_width(config, experts, 512)


FAMILIES = (Family("laguna", read, decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, ROUTED, NORMS, _NAMES), "LagunaForCausalLM"),)
