"""Apertus: Llama's block with normed heads and a network of xIELU, which learns its curvature."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Llama3Scaling,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    pre_norm,
)


def apertus(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int = 131_072) -> Architecture:
    """Apertus Team 2025 (arXiv 2509.14233), section 2.1: a network of two matrices; rotary stretched for 64k tokens."""
    norm = RMSNorm(eps=1e-5)
    rotary = Rotary(theta=12_000_000.0, scaling=Llama3Scaling(factor=8.0, low=1.0, high=4.0, trained=8192))
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, project=Projection(adjust=QKNorm(norm=norm)), place=rotary),
        FeedForward(width=ffn, activation="xielu", gated=False),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_WHAT = "normed heads, a network of xIELU"
_SOURCE = "arXiv 2509.14233, table 1; released configuration Apertus-{}-2509"

ENTRIES = (
    Entry("apertus-8b", 2025, _WHAT, _SOURCE.format("8B"),
          partial(apertus, width=4096, depth=32, heads=32, kv_heads=8, ffn=21_504)),
    Entry("apertus-70b", 2025, _WHAT, _SOURCE.format("70B"),
          partial(apertus, width=8192, depth=80, heads=64, kv_heads=8, ffn=43_008)),
)  # fmt: skip
