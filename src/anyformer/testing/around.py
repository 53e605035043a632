"""A tiny model around a sublayer, whose logits every part changes visibly."""

from __future__ import annotations

from anyformer.model import Architecture, decoder_only
from anyformer.parts import Embedding, FeedForward, Head, Initialisation, Normal, RMSNorm, pre_norm
from anyformer.parts.sublayer import Sublayer

VOCAB, WIDTH = 37, 24
LOUD = Initialisation(matrix=Normal(std=0.25), embedding=Normal(std=0.7), head=Normal(std=0.3))
"""Larger initial weights than in practice, so that a mistake of any part changes the logits visibly."""


def decoder_of(*sublayers: Sublayer) -> Architecture:
    """A decoder of one layer for each of `sublayers`, D = 24, with a feed-forward network after each."""
    norm = RMSNorm()
    blocks = [pre_norm(norm, sublayer, FeedForward(width=20)) for sublayer in sublayers]
    return decoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, final_norm=norm, head=Head(), initialisation=LOUD)
