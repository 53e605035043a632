"""Why a key moves nothing although its class asks for it, where no trial can say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from benchmarks.drift.keys import source

KEPT = "kept by its class, which computes nothing of it"
CAST = "casts to fp32 what is fp32"
WAY = "chooses another way to the same numbers"
TRAINING = "bounds the experts of a training step alone"
PLACES = "marks the places of images, videos or sounds, and a text alone has none"
BESIDE = "has an effect beside values of other keys that are refused here"
KNOWN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    CAST: {
        "attention_softmax_in_fp32": ("gpt_bigcode",),
        "residual_in_fp32": ("mamba", "mamba2", "falcon_mamba"),
        "scale_attention_softmax_in_fp32": ("gpt_bigcode",),
    },
    WAY: {
        "deterministic_flash_attn": ("modernbert",),
        "pretraining_tp": ("bloom",),
        "slow_but_exact": ("bloom",),
        "sparse_prediction": ("modernbert",),
        "use_associative_scan": ("mamba", "falcon_mamba"),
        "use_falcon_mambapy": ("falcon_mamba",),
        "use_mamba_kernels": ("nemotron_h",),
        "use_mambapy": ("mamba", "falcon_mamba"),
    },
    TRAINING: {
        "batch_prioritized_routing": ("nllb-moe",),
        "expert_capacity": ("nllb-moe",),
        "normalize_router_prob_before_dropping": ("nllb-moe",),
    },
    BESIDE: {
        "block_size": ("big_bird", "bigbird_pegasus"),
        "num_random_blocks": ("big_bird", "bigbird_pegasus"),
        "sparse_pred_ignore_index": ("modernbert",),
        "force_dequant": ("ibert",),
        "num_experts": ("doge",),
        "num_experts_per_tok": ("doge",),
        "output_router_logits": ("doge",),
        "router_aux_loss_coef": ("doge",),
    },
}
"""Why -> the key -> the types of model."""
_PLACES = re.compile(r"(^|\.)(image|video|audio)_token_(id|index)$")
"""Tokens for which some classes look up another row of the table, whether or not there is something to put there."""


def marks_places(key: str) -> bool:
    """Whether a key names the token of what is no text."""
    return _PLACES.search(key) is not None


def known(model_type: str, key: str) -> str:
    """Why a key moves nothing, of the table or because its class only keeps it; else an empty text."""
    for why, keys in KNOWN.items():
        if model_type in keys.get(key, ()):
            return why
    if marks_places(key):
        return PLACES
    return KEPT if key in kept(model_type) else ""


@cache
def kept(model_type: str) -> frozenset[str]:
    """Keys that the source of a type's model gives to attributes which it names nowhere else."""
    words = re.findall(r"\w+", source(model_type, model_only=True))
    found = re.findall(r"^\s*self\.(\w+) = (?:self\.)?config\.(\w+)$", source(model_type, model_only=True), re.MULTILINE)
    return frozenset(
        key
        for name, key in found
        if words.count(name) == (2 if name == key else 1) and words.count(key) == (2 if name == key else 1)
    )
