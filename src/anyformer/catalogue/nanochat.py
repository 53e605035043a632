"""Karpathy's nanochat: norms without gains, heads normed after rotation, squared ReLU, soft-capped logits."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    pre_norm,
)


def nanochat(*, depth: int, vocab: int = 65_536) -> Architecture:
    """Karpathy 2025: a depth sets all sizes: 64 features of width per layer, heads of 128, FFN 4 D."""
    norm = RMSNorm(eps=1e-6, gain="none")
    width = 64 * depth
    block = pre_norm(
        norm,
        Attention(
            heads=width // 128, project=Projection(adjust=QKNorm(norm=norm, at="after_rotary")), place=Rotary(theta=10_000.0)
        ),
        FeedForward(width=4 * width, activation="relu_squared", gated=False),
    )
    return decoder_only(
        Embedding(vocab=vocab), width, [block] * depth, input_norm=norm, final_norm=norm, head=Head(softcap=15.0)
    )


_WHAT = "one depth sets all sizes; norms without gains, soft-capped logits"
_SOURCE = "karpathy/nanochat, README and nanochat/gpt.py, October 2025"

ENTRIES = (
    Entry("nanochat-d20", 2025, _WHAT, _SOURCE, partial(nanochat, depth=20)),
    Entry("nanochat-d32", 2025, _WHAT, _SOURCE, partial(nanochat, depth=32)),
)  # fmt: skip
