"""MiMo-V2-Flash (arXiv 2601.02780): narrow scaled values, windows with sinks and twice the key-value heads, V3's router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, key_value_heads, layer_types
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, CORRECTION, FEEDFORWARD, NORMS, ROUTED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Window

FRACTION = 0.334
_ROPE: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "default", "rope_theta": 5_000_000.0, "partial_rotary_factor": FRACTION},
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": FRACTION},
}


def read(config: Config) -> Architecture:
    config.assume(sliding_window=129)
    norm, heads = words.rms_norm(config, 1e-5), _heads(config)
    kinds = words.windows(config, lambda i: FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING)
    networks = words.mlp_types(config, 1)
    experts = words.experts(config, words.v3_router(config), count=256, chosen=8, width=2048, counted=("n_routed_experts",))
    dense = words.feedforward(config, width=16384)
    _agree(config, heads["local"], kinds, networks)
    layers = words.expert_layers(config, norm, lambda kind, _: heads[kind], experts, dense, kinds, networks)
    return words.decoder(config, layers, norm)


def _agree(config: Config, local: Attention, kinds: Sequence[str], networks: Sequence[str]) -> None:
    """Refuse keys of published files that transformers does not read, if they differ from what it computes."""
    computed = {
        "add_full_attention_sink_bias": False, "add_swa_attention_sink_bias": True, "layernorm_epsilon": 1e-5,
        "n_shared_experts": None, "partial_rotary_factor": FRACTION, "rope_theta": _ROPE[FULL]["rope_theta"],
        "scoring_func": "sigmoid", "swa_head_dim": local.head_width, "swa_num_attention_heads": local.heads,
        "swa_num_key_value_heads": local.kv_heads, "swa_rope_theta": _ROPE[SLIDING]["rope_theta"],
        "swa_v_head_dim": local.value_width, "topk_method": "noaux_tc",
        "hybrid_layer_pattern": [int(word == "local") for word in kinds],
        "moe_layer_freq": [int(word == "experts") for word in networks],
    }  # fmt: skip
    config.expect_all(**computed)


def _heads(config: Config) -> dict[str, Attention]:
    """The attention of full and of local layers."""
    rotary, groups = words.shares_by_type(config, _ROPE, FRACTION), config("num_key_value_heads", 4, _groups, kind=SIZE)
    scale = config("attention_value_scale", 0.707, lambda target: target.get("attention.value_scale.factor", 1.0))
    full = words.attention(
        config,
        kv_heads=groups,
        head_width=192,
        value_width=config("v_head_dim", 128),
        value_scale=1.0 if scale is None else float(scale),
        bias=words.biases(config, names=words.QKV),
        rotary=rotary.get(FULL),
    )
    size, before = config("sliding_window", None), config("sliding_window_size", None)
    mask = Window(size=size if before is None else before + 1)
    return {"full": full, "local": full.but(kv_heads=2 * groups, rotary=rotary.get(SLIDING), mask=mask, sink="head")}


def _groups(target: Target) -> int:
    """Key-value heads of full layers; layers with windows have twice as many."""
    return key_value_heads(target) // (1 if layer_types(target)[0] == FULL else 2)


_SINK = {"attention.sink": "self_attn.attention_sink_bias"}
FAMILIES = (
    Family(
        "mimo_v2_flash",
        read,
        decoder_names(ATTENTION, _SINK, FEEDFORWARD, ROUTED, CORRECTION, NORMS),
        "MiMoV2FlashForCausalLM",
        inert=("attention_chunk_size", "hybrid_block_size"),
        ignored=(r"model\.mtp\..*",),
    ),
)
