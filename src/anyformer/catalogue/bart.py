"""BART: an encoder-decoder of BERT's and GPT's layers, post-norm, learned positions, one table for all."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    LearnedPosition,
    Normal,
    Projection,
    post_norm,
    stack,
)


def bart(*, width: int, depth: int, heads: int, vocab: int = 50_265, length: int = 1024, dropout: float = 0.1) -> Architecture:
    """Lewis et al. 2019 (arXiv 1910.13461), section 2.1: `depth` layers on each side, FFN 4 D, positions counted from 2."""
    norm = LayerNorm(eps=1e-5)
    position = LearnedPosition(length=length, offset=2)
    feedforward = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    past = Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")))
    cross = CrossAttention(heads=heads, project=Projection(bias=("query", "key", "value", "output")))
    encoder = post_norm(norm, past.but(mask=Bidirectional()), feedforward, dropout=dropout)
    decoder = post_norm(norm, past, cross, feedforward, dropout=dropout)
    return encoder_decoder(
        Embedding(vocab=vocab),
        width,
        stack([encoder] * depth, position=position, input_norm=norm, dropout=dropout),
        stack([decoder] * depth, position=position, input_norm=norm, dropout=dropout),
        head=Head(tied=True),
        initialisation=Initialisation(matrix=Normal(std=0.02)),
    )


_PAPER = "arXiv 1910.13461, section 2; released configuration bart-{}"
_WHAT = "encoder-decoder, post-norm, learned positions"

ENTRIES = (
    Entry("bart-base", 2019, _WHAT, _PAPER.format("base"), partial(bart, width=768, depth=6, heads=12)),
    Entry("bart-large", 2019, _WHAT, _PAPER.format("large"), partial(bart, width=1024, depth=12, heads=16)),
)  # fmt: skip
