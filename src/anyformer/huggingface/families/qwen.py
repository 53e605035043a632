"""Qwen 2: biases on queries, keys and values, windows from a given layer on; Qwen 3: normed heads in place of the biases."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm


def read(config: Config) -> Architecture:
    return _read(config, bias=words.QKV)


def read3(config: Config) -> Architecture:
    return _read(config, head_width=128, qk_norm=QKNorm(norm=words.rms_norm(config)))


def _read(config: Config, **fields: Any) -> Architecture:
    config.assume(sliding_window=4096, max_window_layers=28)
    config.expect("use_mrope", False)
    norm, network = words.rms_norm(config), words.feedforward(config)
    heads = words.attention(config, kv_heads=32, rotary=words.rotary(config), **fields)
    return words.decoder(config, words.masked_layers(config, norm, heads, network, _windows(config)), norm)


def _windows(config: Config) -> list[str]:
    """The type of each layer: windows only if a flag is set, and then from `max_window_layers` on."""
    used, first = config("use_sliding_window", False), config("max_window_layers")
    if not used:
        config.expect("layer_types", None, [FULL] * config("num_hidden_layers"), why="use_sliding_window is false")
    there = used and config("sliding_window")
    return words.windows(config, lambda layer: SLIDING if there and layer >= first else FULL)


FAMILIES = (
    Family("qwen2", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "Qwen2ForCausalLM"),
    Family("qwen3", read3, decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, NORMS), "Qwen3ForCausalLM"),
)
