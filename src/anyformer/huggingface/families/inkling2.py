"""Inkling 2 (Thinking Machines 2026): attention residuals, filters of keys, values and branches, and logits of distances."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.inkling_line import INERT, names, read_of
from anyformer.model import Architecture


def read(config: Config) -> Architecture:
    config.assume(hidden_size=4608, num_hidden_layers=48, moe_intermediate_size=2304)
    return read_of(config, floor=128_000, heads=48, experts=384)


FAMILIES = (Family("inkling2_text", read, names, "Inkling2ForCausalLM", inert=INERT),)
