"""T5: an encoder-decoder with RMS pre-norm and one table of relative positions per stack; v1.1 and mT5 with gated GELU."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    CrossAttention,
    Embedding,
    Experts,
    FeedForward,
    Head,
    RelativeBuckets,
    RMSNorm,
    Score,
    SharedBias,
    Softmax,
    Stack,
    pre_norm,
    stack,
)
from anyformer.parts.sublayer import Sublayer


def t5(
    *,
    width: int,
    depth: int,
    heads: int,
    ffn: int,
    head_width: int = 64,
    gated: bool = False,
    tied: bool = True,
    experts: Experts | None = None,
    every: int = 2,
    vocab: int = 32_128,
    dropout: float = 0.1,
) -> Architecture:
    """Raffel et al. 2020 (arXiv 1910.10683), section 2.1: scores are not scaled, and no projection has a bias.

    A tied table reads hidden features times D^-0.5. v1.1 (Shazeer 2020, 2002.05202) is gated and not tied. `experts` take the
    place of the feed-forward network in every `every`-th layer (Switch Transformer).
    """
    norm = RMSNorm(eps=1e-6)
    feedforward = FeedForward(width=ffn, activation="gelu_tanh" if gated else "relu", gated=gated, dropout=dropout)
    past = Attention(heads=heads, head_width=head_width, score=Score(scale=1.0), weigh=Softmax(dropout=dropout))
    cross = CrossAttention(heads=heads, head_width=head_width, score=Score(scale=1.0), weigh=Softmax(dropout=dropout))

    def side(buckets: RelativeBuckets, *attentions: Sublayer) -> Stack:
        dense, sparse = (
            pre_norm(norm, *attentions, network, dropout=dropout) for network in (feedforward, experts or feedforward)
        )
        return stack(
            [sparse if layer % every == every - 1 else dense for layer in range(depth)],
            names=Named(dense=dense, sparse=sparse) if experts else None,
            score_bias=SharedBias(heads=heads, buckets=buckets),
            final_norm=norm,
            dropout=dropout,
        )

    return encoder_decoder(
        Embedding(vocab=vocab),
        width,
        side(RelativeBuckets(two_sided=True), past.but(mask=Bidirectional())),
        side(RelativeBuckets(), past, cross),
        head=Head(tied=tied, scale="inverse_sqrt_width" if tied else 1.0),
    )


_GATED = partial(t5, gated=True, tied=False)
_MT5 = partial(_GATED, vocab=250_112)
_PAPER = "arXiv 1910.10683, section 3.7; released configuration t5-{}"
_V1_1 = "arXiv 2002.05202; released configuration t5-v1_1-{}"
_MT5_PAPER = "arXiv 2010.11934, section 3.2; released configuration mt5-{}"
_WHAT = "encoder-decoder, relative positions, ReLU"
_WHAT_1_1 = "encoder-decoder, relative positions, gated GELU"
_SMALL, _BASE, _LARGE, _XL, _XXL = (
    {"width": 512, "depth": 8, "heads": 6, "ffn": 1024},
    {"width": 768, "depth": 12, "heads": 12, "ffn": 2048},
    {"width": 1024, "depth": 24, "heads": 16, "ffn": 2816},
    {"width": 2048, "depth": 24, "heads": 32, "ffn": 5120},
    {"width": 4096, "depth": 24, "heads": 64, "ffn": 10_240},
)

ENTRIES = (
    Entry("t5-small", 2019, _WHAT, _PAPER.format("small"), partial(t5, width=512, depth=6, heads=8, ffn=2048)),
    Entry("t5-base", 2019, _WHAT, _PAPER.format("base"), partial(t5, width=768, depth=12, heads=12, ffn=3072)),
    Entry("t5-large", 2019, _WHAT, _PAPER.format("large"), partial(t5, width=1024, depth=24, heads=16, ffn=4096)),
    Entry("t5-3b", 2019, _WHAT, _PAPER.format("3b"),
          partial(t5, width=1024, depth=24, heads=32, head_width=128, ffn=16_384)),
    Entry("t5-11b", 2019, _WHAT, _PAPER.format("11b"),
          partial(t5, width=1024, depth=24, heads=128, head_width=128, ffn=65_536)),
    Entry("t5-v1.1-small", 2020, _WHAT_1_1, _V1_1.format("small"), partial(_GATED, **_SMALL)),
    Entry("t5-v1.1-base", 2020, _WHAT_1_1, _V1_1.format("base"), partial(_GATED, **_BASE)),
    Entry("t5-v1.1-large", 2020, _WHAT_1_1, _V1_1.format("large"), partial(_GATED, **_LARGE)),
    Entry("t5-v1.1-xl", 2020, _WHAT_1_1, _V1_1.format("xl"), partial(_GATED, **_XL)),
    Entry("t5-v1.1-xxl", 2020, _WHAT_1_1, _V1_1.format("xxl"), partial(_GATED, **_XXL)),
    Entry("mt5-small", 2020, "T5 v1.1 in 101 languages", _MT5_PAPER.format("small"), partial(_MT5, **_SMALL)),
    Entry("mt5-base", 2020, "T5 v1.1 in 101 languages", _MT5_PAPER.format("base"), partial(_MT5, **_BASE)),
    Entry("mt5-large", 2020, "T5 v1.1 in 101 languages", _MT5_PAPER.format("large"), partial(_MT5, **_LARGE)),
    Entry("mt5-xl", 2020, "T5 v1.1 in 101 languages", _MT5_PAPER.format("xl"), partial(_MT5, **_XL)),
    Entry("mt5-xxl", 2020, "T5 v1.1 in 101 languages", _MT5_PAPER.format("xxl"), partial(_MT5, **_XXL)),
)  # fmt: skip
