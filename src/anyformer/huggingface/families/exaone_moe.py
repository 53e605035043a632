"""K-EXAONE (arXiv 2601.01739): GLM 4.5's experts, windows with rotary positions, and full attention without."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    CORRECTION,
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    SHARED,
    dense_width,
    first,
    layer_types,
    layer_words,
    mlp_words,
    read_router,
    shared_count,
    sublayers,
    window_size,
)
from anyformer.huggingface.families.glm_moe import common_keys, layered, read_attention, read_experts
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import NAME, SIZE
from anyformer.model import Architecture
from anyformer.parts import Experts, RMSNorm, Window

_CORRECTION: Table = dict.fromkeys(CORRECTION, "mlp.e_score_correction_bias")


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    count, shared = config("num_experts", 64), config("num_shared_experts", 1)
    experts = read_experts(config, read_router(config, scale=2.5), count=count, shared=shared, width=1024)
    full = read_attention(config, kv_heads=32).but(qk_norm=norm)
    size, step = config("sliding_window", 4096), config("sliding_window_pattern", 4, kind=SIZE | NAME)
    local = full.but(rotary=read_rotary(rope_parameters(config)), mask=Window(size=size))
    if not isinstance(step, int) and config("layer_types", None) is None:
        raise HuggingFaceError(f"{config.where}: sliding_window_pattern is {step!r}, so layer_types must name the layers")
    windows = layer_words(config, lambda i: SLIDING if (i + 1) % step else FULL)
    dense = config("first_k_dense_replace", 1)
    mlps = layer_words(config, lambda i: "dense" if i < dense else "sparse", key="mlp_layer_types")
    return layered(config, norm, {"full": full, "local": local}, windows, mlps, experts, dense=16384)


def write(architecture: Architecture) -> dict[str, Any]:
    experts: Experts = first(architecture, "experts")
    turning = [each for each in sublayers(architecture, "attention") if each.rotary is not None]
    return common_keys(architecture) | {
        **write_rope(turning[0].rotary if turning else None),
        "layer_types": layer_types(architecture),
        "mlp_layer_types": mlp_words(architecture),
        "sliding_window": window_size(architecture) or 4096,
        "intermediate_size": dense_width(architecture, 16384),
        "num_experts": experts.experts,
        "num_shared_experts": shared_count(experts),
    }


FAMILIES = (
    Family(
        "exaone_moe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, ROUTED, _CORRECTION, SHARED, FEEDFORWARD, NORMS, EXPERTS_NORM),
        "ExaoneMoeForCausalLM",
        inert=("num_nextn_predict_layers",),
        ignored=(r"mtp\..*",),
    ),
)
