"""EXAONE 4: norms of what a branch gives, normed heads, rotary positions only where there is a window, or no layer has one."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, feedforward, kind, masked, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, decoder_names
from anyformer.huggingface.families.olmo import AFTER
from anyformer.huggingface.families.qwen import QK_NORM
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import FULL, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import QKNorm, RMSNorm

UNUSED = 4096
"""A window where no layer has one, and none is placed either."""


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=32, sliding_window=UNUSED)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    rotary, network = read_rotary(rope_parameters(config)), feedforward(config)
    everywhere = config("sliding_window") is None
    layers = []
    for window in windows(config):
        placed = rotary if window or everywhere else None
        heads = attention(config, bias=(), rotary=placed, mask=masked(window), qk_norm=QKNorm(norm=norm))
        layers.append((kind(window), block(heads, network, after=norm)))
    return model(config, layers, norm)


def windows(config: Config) -> list[int | None]:
    """The window of every layer: all but every `sliding_window_pattern`-th, unless `layer_types` says another."""
    depth, period = config("num_hidden_layers"), config("sliding_window_pattern", 4)
    if config("sliding_window") is None:
        return decoder.windows(config, [FULL] * depth)
    # Files that spell the period in letters spell out the layers too.
    return decoder.windows(config, decoder.every(period, depth) if isinstance(period, int) and period else None)


def write(architecture: Architecture) -> dict[str, Any]:
    placed = any(rotary is not None for rotary in decoder.each(architecture, "attention.rotary"))
    return {**decoder.write(architecture), **decoder.write_windows(architecture, None if placed else UNUSED)}


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, AFTER)


FAMILIES = (Family("exaone4", read, write, names, "Exaone4ForCausalLM", ignored=BUFFERS),)
