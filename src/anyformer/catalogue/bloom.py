"""BLOOM: ALiBi instead of positions, and a norm right after the embedding."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    ALiBi,
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    Score,
    pre_norm,
)


def bloom(*, width: int, depth: int, heads: int, vocab: int = 250_880) -> Architecture:
    """Scao et al. 2022 (arXiv 2211.05100), section 3.2."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")), score=Score(terms=ALiBi())),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, input_norm=norm, final_norm=norm, head=Head(tied=True))


_PAPER = "arXiv 2211.05100, table 3"
_WHAT = "ALiBi, a norm after the embedding"

ENTRIES = (
    Entry("bloom-560m", 2022, _WHAT, _PAPER, partial(bloom, width=1024, depth=24, heads=16)),
    Entry("bloom-1b1", 2022, _WHAT, _PAPER, partial(bloom, width=1536, depth=24, heads=16)),
    Entry("bloom-1b7", 2022, _WHAT, _PAPER, partial(bloom, width=2048, depth=24, heads=16)),
    Entry("bloom-3b", 2022, _WHAT, _PAPER, partial(bloom, width=2560, depth=30, heads=32)),
    Entry("bloom-7b1", 2022, _WHAT, _PAPER, partial(bloom, width=4096, depth=30, heads=32)),
    Entry("bloom-176b", 2022, _WHAT, _PAPER, partial(bloom, width=14_336, depth=70, heads=112)),
)  # fmt: skip
