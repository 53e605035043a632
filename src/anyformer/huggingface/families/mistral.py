"""Mistral: Llama with sliding windows; Ministral: in some layers; 3: queries scaled by position; Mixtral: experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, NUMBERED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import LogTemperature, Router, pre_norm

_ROPE = {
    "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384, "beta_fast": 32.0,
    "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
}  # fmt: skip
"""The rotary settings of Ministral 3 where the configuration has no table."""


def read(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    words.mask_of_all(config)
    return _read(config, ["local"] * config("num_hidden_layers"), rotary=words.rotary(config))


def read_ministral(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    usual = FULL if config("sliding_window") is None else SLIDING
    return _read(config, words.windows(config, lambda i: usual), rotary=words.rotary(config))


def read_ministral3(config: Config) -> Architecture:
    config.assume(head_dim=128, sliding_window=None, rms_norm_eps=1e-5, rope_parameters=_ROPE)
    table = words.rope_parameters(config, at=_warmed_table)
    table.pop("max_position_embeddings", None)
    if not {"llama_4_scaling_beta", "original_max_position_embeddings"} <= set(table):
        raise HuggingFaceError(
            f"{config.where}: rope_parameters needs llama_4_scaling_beta and original_max_position_embeddings"
        )
    words.mask_of_all(config)
    strength, span = table.pop("llama_4_scaling_beta"), table["original_max_position_embeddings"]
    if table["rope_type"] in ("default", "linear"):  # scalings without a training length
        table.pop("original_max_position_embeddings")
    warm = LogTemperature(strength=strength, span=span, shift=0) if strength else None
    return _read(config, ["local"] * config("num_hidden_layers"), rotary=words.from_table(table), temperature=warm)


def _warmed_table(target: Target) -> dict[str, Any]:
    span, strength = (target.get(f"attention.temperature.{name}", none) for name, none in (("span", 16_384), ("strength", 0.0)))
    return {"original_max_position_embeddings": span, **words.rope_table(target), "llama_4_scaling_beta": strength}


def _read(config: Config, kinds: Sequence[str], **fields: Any) -> Architecture:
    norm, heads = words.rms_norm(config), words.attention(config, kv_heads=8, bias=(), **fields)
    return words.decoder(config, words.masked_layers(config, norm, heads, words.feedforward(config), kinds), norm)


def read_mixtral(config: Config) -> Architecture:
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, theta=1e6)
    heads = words.attention(config, kv_heads=8, bias=(), mask=words.mask_of_all(config), rotary=rotary)
    router, counted = Router(renormalise=words.EXACT), ("num_local_experts",)
    experts = words.experts(config, router, count=8, chosen=2, counted=counted, size="intermediate_size")
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, experts)), norm)


_NAMES = decoder_names(ATTENTION, FEEDFORWARD, NORMS)
FAMILIES = (
    Family("mistral", read, _NAMES, "MistralForCausalLM"),
    Family("ministral", read_ministral, _NAMES, "MinistralForCausalLM"),
    Family("ministral3", read_ministral3, _NAMES, "Ministral3ForCausalLM"),
    Family("mixtral", read_mixtral, decoder_names(ATTENTION, NUMBERED, NORMS), "MixtralForCausalLM"),
)
