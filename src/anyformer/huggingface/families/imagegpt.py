"""Image GPT: GPT-2 over colours, with RMS norms and quick GELU; the start's token is read and never predicted."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names
from anyformer.model import Architecture
from anyformer.parts import Embedding, Head, RMSNorm


def read(config: Config) -> Architecture:
    config.expect("tie_word_embeddings", False, why="the head has one row less than the embedding")
    width, vocab = config("n_embd", 512), config("vocab_size", 513)
    attentions = gpt2.layerwise(config, width, config("n_head", 8), config("n_layer", 24))
    made = gpt2.learned_decoder(config, width, attentions, "quick_gelu", RMSNorm())
    return made.but(embedding=Embedding(vocab=vocab), head=Head(outputs=vocab - 1))


FAMILIES = (
    Family(
        "imagegpt",
        read,
        gpt2.write,
        lambda architecture: Names(gpt2.OUTSIDE, {"decoder": (gpt2.LAYER, {**gpt2.NORMS, **gpt2.TURNED})}),
        "ImageGPTForCausalImageModeling",
        inert=(*gpt2.INERT, *gpt2.ROUNDING),
        ignored=(gpt2.MASKS,),
        base=gpt2.BASE,
    ),
)
