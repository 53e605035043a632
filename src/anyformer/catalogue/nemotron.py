"""NVIDIA's Nemotron-4: squared ReLU, LayerNorm with a gain of 1 + w, half of each head rotated."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, LayerNorm, Rotary, pre_norm


def nemotron(*, width: int, depth: int, heads: int, kv_heads: int, vocab: int = 256_000) -> Architecture:
    """Parmar et al. 2024 (arXiv 2402.16819), section 2: FFN 4 D without a gate, no biases but the norms'."""
    norm = LayerNorm(eps=1e-5, gain="one_plus_weight")
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, place=Rotary(fraction=0.5)),
        FeedForward(width=4 * width, activation="relu_squared", gated=False),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_WHAT = "squared ReLU, grouped queries"

ENTRIES = (
    Entry("nemotron-4-15b", 2024, _WHAT, "arXiv 2402.16819, table 1",
          partial(nemotron, width=6144, depth=32, heads=48, kv_heads=8)),
    Entry("nemotron-4-340b", 2024, _WHAT, "arXiv 2406.11704, table 1",
          partial(nemotron, width=18_432, depth=96, heads=96, kv_heads=8)),
)  # fmt: skip
