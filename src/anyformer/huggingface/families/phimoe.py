"""Phi-3.5 MoE: layer norms with biases, and SparseMixer, which chooses two experts one after the other (arXiv 2409.12136)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, NORMS, NUMBERED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Rotary, Router, SparseMixer, pre_norm

_MSCALES = ("short_mscale", "long_mscale")
"""The attention factor, by a key for short texts and one for long texts."""


def read(config: Config) -> Architecture:
    config.expect("num_experts_per_tok", 2)
    norm = words.layer_norm(config, key="rms_norm_eps")
    heads = words.attention(config, kv_heads=8, mask=words.mask_of_all(config), rotary=_rotary(config))
    jitter = config("router_jitter_noise", 0.01, lambda target: target("experts.router.choice.margin") / 2)
    router, counted = Router(choice=SparseMixer(margin=2 * jitter)), ("num_local_experts",)
    experts = words.experts(config, router, count=16, chosen=2, counted=counted, chosen_key=(), size="intermediate_size")
    bias = config("lm_head_bias", False)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, experts)), norm, bias=bias)


def _rotary(config: Config) -> Rotary:
    table = words.rope_parameters(config, theta=1e6, at=_table)
    config.expect("original_max_position_embeddings", None, table.get("original_max_position_embeddings"))
    if table["rope_type"] == "default":
        return words.from_table(table)
    short, long = (table.pop(name, None) for name in _MSCALES)
    if table["rope_type"] != "longrope" or short is None or short != long:
        raise HuggingFaceError(
            f"{config.where}: rope_type is {table['rope_type']!r} with short_mscale = {short} and long_mscale = {long}; only "
            f"'default' and 'longrope' with one factor are known for phimoe"
        )
    return words.from_table({**table, "attention_factor": float(short)}, unread=("factor",))


def _table(target: Target) -> dict[str, Any]:
    table = words.rope_table(target)
    return table | dict.fromkeys(_MSCALES, table.pop("attention_factor")) if "attention_factor" in table else table


FAMILIES = (
    Family(
        "phimoe",
        read,
        decoder_names(ATTENTION, NUMBERED, NORMS),
        "PhimoeForCausalLM",
        # Noise of training, which reaches the experts too and is not described here.
        inert=("hidden_dropout", "input_jitter_noise"),
    ),
)
