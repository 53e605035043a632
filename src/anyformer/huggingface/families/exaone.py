"""EXAONE 4: norms after branches, normed heads, rotary positions in layers with windows, or in all if none has one."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, slides, window
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import AFTER, ATTENTION, FEEDFORWARD, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, QKNorm, output_norm

UNUSED = 4096
"""The window written where no layer has one and no layer has rotary positions."""


def read(config: Config) -> Architecture:
    config.assume(sliding_window=UNUSED)
    everywhere = config("sliding_window", None, _window) is None
    norm, network, rotary = words.rms_norm(config, 1e-5), words.feedforward(config), words.rotary(config)
    heads = words.attention(config, kv_heads=32, bias=(), qk_norm=QKNorm(norm=norm))

    def block(kind: str) -> Block:
        placed = rotary if everywhere or kind == "local" else None
        return output_norm(norm, heads.but(mask=words.mask(config, kind), rotary=placed), network)

    period = config("sliding_window_pattern", 4)
    usual = words.every(period) if isinstance(period, int) and period else None
    # Files that give the period in letters give the layer types too.
    kinds = words.windows(config, (lambda i: FULL) if everywhere else usual)
    return words.decoder(config, words.layered(block, kinds), norm)


def _window(target: Target) -> int | None:
    if slides(target):
        return window(target)
    return None if target("attention.rotary") is not None else UNUSED


FAMILIES = (Family("exaone4", read, decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, AFTER), "Exaone4ForCausalLM"),)
