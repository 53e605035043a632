"""Image GPT: GPT-2 over colours, with RMS norms and quick GELU; the start's token is read and never predicted."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.gpt_line import (
    BASE,
    INERT,
    MASKS,
    NORMS,
    ROUNDING,
    TRANSPOSED,
    gpt_attentions,
    gpt_names,
    learned_decoder,
)
from anyformer.model import Architecture
from anyformer.parts import Head, RMSNorm


def read(config: Config) -> Architecture:
    config.assume(n_layer=24, n_embd=512, vocab_size=513)
    config.expect("tie_word_embeddings", False, why="the head has one row less than the embedding")
    width = config("n_embd")
    made = learned_decoder(config, width, gpt_attentions(config, width, 8), "quick_gelu", RMSNorm())
    return made.but(head=Head(outputs=config("vocab_size") - 1))


FAMILIES = (
    Family(
        "imagegpt",
        read,
        gpt_names(NORMS, TRANSPOSED),
        "ImageGPTForCausalImageModeling",
        inert=(*INERT, *ROUNDING),
        ignored=(MASKS,),
        base=BASE,
    ),
)
