"""Google's LaMDA and PaLM: T5's relative positions with gated GELU, then parallel layers with one head of keys and values."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    RelativeBuckets,
    RMSNorm,
    Rotary,
    SharedBias,
    parallel,
    pre_norm,
)


def lamda(*, width: int, depth: int, heads: int, head_width: int, ffn: int, vocab: int) -> Architecture:
    """Thoppilan et al. 2022 (arXiv 2201.08239), section 3: T5's relative attention and gated GELU in a decoder."""
    norm = RMSNorm(eps=1e-6)
    block = pre_norm(
        norm, Attention(heads=heads, head_width=head_width), FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        score_bias=SharedBias(heads=heads, buckets=RelativeBuckets(buckets=32, max_distance=128)),
        final_norm=norm,
        head=Head(tied=True),
    )


def palm(*, width: int, depth: int, heads: int, head_width: int = 256, vocab: int = 256_000) -> Architecture:
    """Chowdhery et al. 2022 (arXiv 2204.02311), section 2: parallel layers, SwiGLU of 4 D, multi-query, no biases.

    The table is shared with the head, whose logits are scaled by D^-0.5.
    """
    norm = LayerNorm(eps=1e-6, bias=False)
    block = parallel(
        norm,
        Attention(heads=heads, kv_heads=1, head_width=head_width, place=Rotary()),
        FeedForward(width=4 * width, activation="silu", gated=True),
    )
    return decoder_only(
        Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=True, scale="inverse_sqrt_width")
    )


_LAMDA = "arXiv 2201.08239, section 3"
_LAMDA_STAND_IN = (
    "norm, its place and the tying are not published: T5's RMS pre-norm, a tied head and the usual scale of scores"
)
_PALM = "arXiv 2204.02311, table 1; of its z-loss section 5"
_PALM_STAND_IN = "the vocabulary is published as 256k: 256,000"

ENTRIES = (
    Entry("lamda-137b", 2022, "T5's relative positions, gated GELU", _LAMDA,
          partial(lamda, width=8192, depth=64, heads=128, head_width=128, ffn=65_536, vocab=32_000), _LAMDA_STAND_IN),
    Entry("palm-8b", 2022, "parallel, multi-query, SwiGLU", _PALM, partial(palm, width=4096, depth=32, heads=16),
          _PALM_STAND_IN, training=("z-loss",)),
    Entry("palm-62b", 2022, "parallel, multi-query, SwiGLU", _PALM, partial(palm, width=8192, depth=64, heads=32),
          _PALM_STAND_IN, training=("z-loss",)),
    Entry("palm-540b", 2022, "parallel, multi-query, SwiGLU", _PALM, partial(palm, width=18_432, depth=118, heads=48),
          _PALM_STAND_IN, training=("z-loss",)),
)  # fmt: skip
