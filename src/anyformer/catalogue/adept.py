"""Adept's Persimmon: normed heads, half of each rotated, squared ReLU; the text model of Fuyu."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    LayerNorm,
    Projection,
    QKNorm,
    Rotary,
    pre_norm,
)


def persimmon() -> Architecture:
    """Elsen et al. 2023: LayerNorm and biases throughout, a vocabulary of 262,144 and a head of its own."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(
            heads=64,
            project=Projection(bias=("query", "key", "value", "output"), adjust=QKNorm(norm=norm)),
            place=Rotary(theta=25_000.0, fraction=0.5),
        ),
        FeedForward(width=16_384, activation="relu_squared", gated=False, bias=("up", "down")),
    )
    return decoder_only(Embedding(vocab=262_144), 4096, [block] * 36, final_norm=norm)


ENTRIES = (
    Entry("persimmon-8b", 2023, "normed heads, squared ReLU, a vocabulary of 262,144",
          "persimmon-ai-labs/adept-inference, README; transformers 5.23, defaults of PersimmonConfig (adept/persimmon-8b-base)",
          persimmon),
)  # fmt: skip
