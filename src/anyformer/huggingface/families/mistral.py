"""Mistral: Llama with a sliding window on every layer; Ministral: on some; Ministral 3: queries warmer by position."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import LogTemperature, RMSNorm, Rotary
from anyformer.parts.attention.temperature import Temperature


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, sliding_window=4096, rms_norm_eps=1e-6)
    rotary = read_rotary(rope_parameters(config))
    return _read(config, [config("sliding_window")] * config("num_hidden_layers"), rotary)


def write(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), "sliding_window": decoder.each(architecture, "attention.mask")[0].reach}


def read_ministral(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, sliding_window=4096, rms_norm_eps=1e-6)
    usual = FULL if config("sliding_window") is None else SLIDING
    return _read(config, decoder.windows(config, [usual] * config("num_hidden_layers")), read_rotary(rope_parameters(config)))


def write_ministral(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), **decoder.write_windows(architecture)}


def read_ministral3(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, head_dim=128, sliding_window=None, rms_norm_eps=1e-5, rope_parameters=_MINISTRAL3)
    table = rope_parameters(config)
    table.pop("max_position_embeddings", None)
    if not {"llama_4_scaling_beta", "original_max_position_embeddings"} <= set(table):
        raise HuggingFaceError(
            f"{config.where}: rope_parameters needs llama_4_scaling_beta and original_max_position_embeddings"
        )
    strength = table.pop("llama_4_scaling_beta")
    span = table["original_max_position_embeddings"]
    rotary = read_rotary(table, unread=("original_max_position_embeddings",) if table["rope_type"] in _SHORT else ())
    warm = LogTemperature(strength=strength, span=span, shift=0) if strength else None
    return _read(config, [config("sliding_window")] * config("num_hidden_layers"), rotary, warm)


def write_ministral3(architecture: Architecture) -> dict[str, Any]:
    written = write(architecture)
    span, strength = 16_384, 0.0
    if decoder.each(architecture, "attention.temperature")[0] is not None:
        span, strength = (decoder.each(architecture, f"attention.temperature.{field}")[0] for field in ("span", "strength"))
    table = {"original_max_position_embeddings": span, **written["rope_parameters"], "llama_4_scaling_beta": strength}
    return {**written, "rope_parameters": table}


_SHORT = ("default", "linear")
"""Scalings that know no trained length of their own."""
_MINISTRAL3 = {
    "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384, "beta_fast": 32.0,
    "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
}  # fmt: skip
"""What transformers takes where the configuration has no table."""


def _read(config: Config, windows: list[int | None], rotary: Rotary, temperature: Temperature | None = None) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps"))
    network = feedforward(config)
    heads = [attention(config, bias=(), rotary=rotary, mask=masked(window), temperature=temperature) for window in windows]
    layers = [(kind(window), block(each, network, before=norm)) for window, each in zip(windows, heads, strict=True)]
    return model(config, layers, norm)


def _names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, NORMS)


FAMILIES = (
    Family("mistral", read, write, _names, "MistralForCausalLM", ignored=BUFFERS),
    Family("ministral", read_ministral, write_ministral, _names, "MinistralForCausalLM", ignored=BUFFERS),
    Family("ministral3", read_ministral3, write_ministral3, _names, "Ministral3ForCausalLM", ignored=BUFFERS),
)
