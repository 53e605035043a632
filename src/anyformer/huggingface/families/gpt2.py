"""GPT-2: LayerNorm pre-norm, learned positions, fused and transposed projections; Image GPT: GPT-2 over colours."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.gpt_line import (
    BASE,
    INERT,
    MASKS,
    NORMS,
    TRANSPOSED,
    gpt_attentions,
    gpt_names,
    learned_decoder,
)
from anyformer.model import Architecture
from anyformer.parts import Head, LayerNorm, RMSNorm

_NEMO = ("apply_query_key_layer_scaling", "normalize_attention_scores")
"""Keys that the training code of GPT-SW3 left in its files."""


def read(config: Config) -> Architecture:
    config.assume(n_layer=12, n_embd=768)
    width = config("n_embd")
    return learned_decoder(config, width, gpt_attentions(config, width, 12), "gelu_new", LayerNorm())


def read_image(config: Config) -> Architecture:
    """RMS norms and quick GELU; the token that begins an image is read and never predicted."""
    config.assume(n_layer=24, n_embd=512, vocab_size=513)
    config.expect("tie_word_embeddings", False, why="the head has one row less than the embedding")
    width = config("n_embd")
    made = learned_decoder(config, width, gpt_attentions(config, width, 8), "quick_gelu", RMSNorm())
    return made.but(head=Head(outputs=config("vocab_size") - 1))


_NAMES, _INERT = gpt_names(NORMS, TRANSPOSED), (*INERT, "reorder_and_upcast_attn")
"""The last key sets the order and dtype in which scores are scaled."""
FAMILIES = (
    Family("gpt2", read, _NAMES, "GPT2LMHeadModel", inert=(*_INERT, *_NEMO), ignored=(MASKS,), base=BASE),
    Family("imagegpt", read_image, _NAMES, "ImageGPTForCausalImageModeling", inert=_INERT, ignored=(MASKS,), base=BASE),
)
