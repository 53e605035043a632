"""Whisper: speech to text, an encoder of audio frames and a decoder that reads it."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    AudioFrames,
    Bidirectional,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    pre_norm,
    stack,
)


def whisper(*, width: int, depth: int, heads: int, bands: int = 80, vocab: int = 51_865) -> Architecture:
    """Radford et al. 2022 (arXiv 2212.04356), section 2.2: `depth` layers on each side, FFN 4 D, keys without a bias."""
    norm = LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    past = Attention(heads=heads, project=Projection(bias=("query", "value", "output")))
    cross = CrossAttention(heads=heads, project=Projection(bias=("query", "value", "output")))
    waves = SinusoidalPosition(layout="halves", spacing="inclusive", length=1500)
    return encoder_decoder(
        AudioFrames(features=bands),
        width,
        stack([pre_norm(norm, past.but(mask=Bidirectional()), feedforward)] * depth, position=waves, final_norm=norm),
        stack([pre_norm(norm, past, cross, feedforward)] * depth, position=LearnedPosition(length=448), final_norm=norm),
        decoder_embedding=Embedding(vocab=vocab),
        head=Head(tied=True),
    )


_PAPER = "arXiv 2212.04356, table 1; released configuration whisper-{}"
_WHAT = "30 s of speech to text"

ENTRIES = (
    Entry("whisper-tiny", 2022, _WHAT, _PAPER.format("tiny"), partial(whisper, width=384, depth=4, heads=6)),
    Entry("whisper-base", 2022, _WHAT, _PAPER.format("base"), partial(whisper, width=512, depth=6, heads=8)),
    Entry("whisper-small", 2022, _WHAT, _PAPER.format("small"), partial(whisper, width=768, depth=12, heads=12)),
    Entry("whisper-medium", 2022, _WHAT, _PAPER.format("medium"), partial(whisper, width=1024, depth=24, heads=16)),
    Entry("whisper-large", 2022, _WHAT, _PAPER.format("large"), partial(whisper, width=1280, depth=32, heads=20)),
    Entry("whisper-large-v3", 2023, "128 bands of sound", "released configuration whisper-large-v3",
          partial(whisper, width=1280, depth=32, heads=20, bands=128, vocab=51_866)),
)  # fmt: skip
