"""Qwen 2: biases on queries, keys and values, windows from some layer up; Qwen 3: normed heads in place of the biases."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import QKNorm, RMSNorm

QK_NORM: Table = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=32)
    return _read(config, bias=("query", "key", "value"))


def write(architecture: Architecture) -> dict[str, Any]:
    windows = decoder.write_windows(architecture)
    return {**decoder.write(architecture), **windows, "use_sliding_window": windows["sliding_window"] is not None}


def read3(config: Config) -> Architecture:
    config.assume(num_key_value_heads=32, head_dim=128)
    return _read(config, qk_norm=QKNorm(norm=RMSNorm(eps=config("rms_norm_eps", 1e-6))))


def write3(architecture: Architecture) -> dict[str, Any]:
    return {**write(architecture), "attention_bias": decoder.biased(architecture)}


def _read(config: Config, **fields: Any) -> Architecture:
    config.assume(sliding_window=4096, max_window_layers=28)
    config.expect("use_mrope", False)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    rotary, network = read_rotary(rope_parameters(config)), feedforward(config)
    layers = [
        (kind(window), block(attention(config, rotary=rotary, mask=masked(window), **fields), network, before=norm))
        for window in windows(config)
    ]
    return model(config, layers, norm)


def windows(config: Config) -> list[int | None]:
    """The window of every layer: none unless asked for, and then from layer `max_window_layers` up."""
    used, first = config("use_sliding_window", False), config("max_window_layers")
    usual = [SLIDING if used and layer >= first else FULL for layer in range(config("num_hidden_layers"))]
    if not used:
        config.expect("layer_types", None, usual, why="use_sliding_window is false")
    return decoder.windows(config, usual if config("sliding_window") else [FULL] * len(usual))


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, NORMS)


def names3(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, NORMS)


FAMILIES = (
    Family("qwen2", read, write, names, "Qwen2ForCausalLM", ignored=BUFFERS),
    Family("qwen3", read3, write3, names3, "Qwen3ForCausalLM", ignored=BUFFERS),
)
