"""Hy4: latent attention with sinks and gates over keys that layers choose together, and streams that are never mixed."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.hy_line import INERT, SPELLINGS, names, read_of
from anyformer.model import Architecture


def read(config: Config) -> Architecture:
    config.assume(vocab_size=120_832, hidden_size=2816, num_hidden_layers=34, num_attention_heads=32, intermediate_size=6912)
    return read_of(config, q_rank=1536, index_heads=16, expert_width=768, pairing="halves")


FAMILIES = (
    Family("hy_v4", read, names, "HYV4ForCausalLM", inert=INERT, ignored=(r"model\.mtp_layers\..*",), older_names=SPELLINGS),
)
