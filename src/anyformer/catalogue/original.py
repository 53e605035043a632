"""The original Transformer: an encoder-decoder with post-norm and sinusoidal positions."""

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
    SinusoidalPosition,
    Xavier,
    post_norm,
    stack,
)


def original(*, width: int, depth: int, heads: int, ffn: int, vocab: int = 37_000, dropout: float = 0.1) -> Architecture:
    """Vaswani et al. 2017 (arXiv 1706.03762): one table for both sides and the head, embeddings scaled by sqrt(D)."""
    norm = LayerNorm(eps=1e-6)
    feedforward = FeedForward(width=ffn, activation="relu", gated=False, bias=("up", "down"))
    position = SinusoidalPosition()
    encoder = post_norm(norm, Attention(heads=heads, mask=Bidirectional()), feedforward, dropout=dropout)
    decoder = post_norm(norm, Attention(heads=heads), CrossAttention(heads=heads), feedforward, dropout=dropout)
    return encoder_decoder(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        stack([encoder] * depth, position=position, dropout=dropout),
        stack([decoder] * depth, position=position, dropout=dropout),
        head=Head(tied=True),
        initialisation=Initialisation(matrix=Xavier()),
    )


_PAPER = "arXiv 1706.03762, table 3; attention without biases as in the authors' code"

ENTRIES = (
    Entry("transformer-base", 2017, "encoder-decoder, post-norm, sinusoids", _PAPER,
          partial(original, width=512, depth=6, heads=8, ffn=2048)),
    Entry("transformer-big", 2017, "encoder-decoder, post-norm, sinusoids", _PAPER,
          partial(original, width=1024, depth=6, heads=16, ffn=4096, dropout=0.3)),
)  # fmt: skip
