"""DeepMind's Gopher and Chinchilla: GPT-2 with RMSNorm and the relative positions of Transformer-XL."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    RMSNorm,
    Score,
    TransformerXL,
    pre_norm,
)


def gopher(*, width: int, depth: int, heads: int, head_width: int, vocab: int = 32_000) -> Architecture:
    """Rae et al. 2021 (arXiv 2112.11446), section 3.1: GPT-2 with two changes, RMSNorm and relative positions; FFN 4 D."""
    norm = RMSNorm(eps=1e-6)
    block = pre_norm(
        norm,
        Attention(heads=heads, head_width=head_width, score=Score(terms=TransformerXL())),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=True))


_GOPHER = "arXiv 2112.11446, table 1"
_CHINCHILLA = "arXiv 2203.15556, table 4"
_WHAT = "GPT-2 with RMSNorm and Transformer-XL's positions"
_STAND_IN = "biases and the activation are not stated: none, and GPT-2's GELU"

ENTRIES = (
    Entry("gopher-44m", 2021, _WHAT, _GOPHER, partial(gopher, width=512, depth=8, heads=16, head_width=32), _STAND_IN),
    Entry("gopher-117m", 2021, _WHAT, _GOPHER, partial(gopher, width=768, depth=12, heads=12, head_width=64), _STAND_IN),
    Entry("gopher-417m", 2021, _WHAT, _GOPHER, partial(gopher, width=1536, depth=12, heads=12, head_width=128), _STAND_IN),
    Entry("gopher-1.4b", 2021, _WHAT, _GOPHER, partial(gopher, width=2048, depth=24, heads=16, head_width=128), _STAND_IN),
    Entry("gopher-7.1b", 2021, _WHAT, _GOPHER, partial(gopher, width=4096, depth=32, heads=32, head_width=128), _STAND_IN),
    Entry("gopher-280b", 2021, _WHAT, _GOPHER, partial(gopher, width=16_384, depth=80, heads=128, head_width=128), _STAND_IN),
    Entry("chinchilla-70b", 2022, _WHAT, _CHINCHILLA,
          partial(gopher, width=8192, depth=80, heads=64, head_width=128), _STAND_IN),
)  # fmt: skip
