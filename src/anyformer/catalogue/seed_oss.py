"""ByteDance's Seed-OSS: Llama's block with heads wider together than the stream, biases on queries, keys and values."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Projection,
    RMSNorm,
    Rotary,
    Softmax,
    pre_norm,
)


def seed_oss() -> Architecture:
    """ByteDance Seed 2025: 80 heads of 128 in a stream of 5,120, theta 10,000,000 for 512k tokens."""
    norm = RMSNorm(eps=1e-6)
    attention = Attention(
        heads=80,
        kv_heads=8,
        head_width=128,
        project=Projection(bias=("query", "key", "value")),
        place=Rotary(theta=10_000_000.0),
        weigh=Softmax(dropout=0.1),
    )
    block = pre_norm(norm, attention, FeedForward(width=27_648, activation="silu", gated=True), dropout=0.1)
    return decoder_only(Embedding(vocab=155_136), 5120, [block] * 64, final_norm=norm)


ENTRIES = (
    Entry("seed-oss-36b", 2025, "80 heads in a stream of 5,120, 512k tokens",
          "released configuration Seed-OSS-36B-Base", seed_oss),
)  # fmt: skip
