"""The GPT line: LayerNorm, learned positions, GELU feed-forward, biases everywhere."""

from __future__ import annotations

from functools import partial
from typing import Literal

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Causal,
    Chunk,
    Embedding,
    FanIn,
    FeedForward,
    Fixed,
    Head,
    Initialisation,
    LayerNorm,
    LearnedPosition,
    Normal,
    Projection,
    Softmax,
    Window,
    post_norm,
    pre_norm,
)
from anyformer.parts.attention.projection import PROJECTIONS


def gpt1(*, width: int, depth: int, heads: int, vocab: int, length: int, dropout: float = 0.1) -> Architecture:
    """Radford et al. 2018: a decoder with post-norm and no final norm; FFN 4 D, GELU in its tanh form, tied embedding."""
    block = post_norm(
        LayerNorm(eps=1e-5),
        Attention(heads=heads, project=Projection(bias=PROJECTIONS), weigh=Softmax(dropout=dropout)),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
        dropout=dropout,
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        position=LearnedPosition(length=length),
        dropout=dropout,
        head=Head(tied=True),
        initialisation=Initialisation(matrix=Normal(std=0.02)),
    )


def gpt2(
    *,
    width: int,
    depth: int,
    heads: int,
    vocab: int = 50_257,
    length: int = 1024,
    bias: bool = True,
    activation: Literal["gelu", "gelu_tanh"] = "gelu_tanh",
    dropout: float = 0.1,
) -> Architecture:
    """Radford et al. 2019: pre-norm, FFN 4 D, tied embedding, residual projections scaled by (2 L)^-0.5 at the start."""
    norm = LayerNorm(eps=1e-5, bias=bias)
    block = pre_norm(
        norm,
        Attention(heads=heads, project=Projection(bias=PROJECTIONS if bias else ()), weigh=Softmax(dropout=dropout)),
        FeedForward(width=4 * width, activation=activation, gated=False, bias=("up", "down") if bias else ()),
        dropout=dropout,
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        position=LearnedPosition(length=length),
        dropout=dropout,
        final_norm=norm,
        head=Head(tied=True),
        initialisation=Initialisation(matrix=Normal(std=0.02), residual_scale="inverse_sqrt_2_depth"),
    )


def gpt3(*, width: int, depth: int, heads: int, head_width: int, band: int = 256) -> Architecture:
    """Brown et al. 2020 (arXiv 2005.14165), section 2.1: GPT-2 with alternating dense and locally banded sparse layers.

    The width of the band is not published: here a window of 256, as in GPT-Neo's open replication.
    """
    norm = LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down"))
    dense = pre_norm(norm, Attention(heads=heads, head_width=head_width, project=Projection(bias=PROJECTIONS)), feedforward)
    banded = pre_norm(
        norm,
        Attention(heads=heads, head_width=head_width, mask=Window(size=band), project=Projection(bias=PROJECTIONS)),
        feedforward,
    )
    return decoder_only(
        Embedding(vocab=50_257),
        width,
        [dense, banded] * (depth // 2),
        names=Named(dense=dense, banded=banded),
        position=LearnedPosition(length=2048),
        final_norm=norm,
        head=Head(tied=True),
        initialisation=Initialisation(matrix=Normal(std=0.02), residual_scale="inverse_sqrt_2_depth"),
    )


def sparse_transformer(
    *, width: int, depth: int, heads: int, vocab: int, stride: int, summary: int, length: int
) -> Architecture:
    """Child et al. 2019 (arXiv 1904.10509), sections 4 and 5: pre-norm, sigmoid-GELU of 4 D, fixed sparse attention.

    A query sees its block of `stride` positions, and the last `summary` positions of every block before.
    """
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(
            heads=heads,
            mask=Causal() & (Chunk(size=stride) | Fixed(size=stride, summary=summary)),
            project=Projection(bias=PROJECTIONS),
        ),
        FeedForward(width=4 * width, activation="quick_gelu", gated=False, bias=("up", "down")),
    )
    return decoder_only(
        Embedding(vocab=vocab), width, [block] * depth, position=LearnedPosition(length=length), final_norm=norm,
        initialisation=Initialisation(matrix=FanIn(), residual_scale="inverse_sqrt_2_depth"),
    )  # fmt: skip


_PAPER_2 = "Radford et al. 2019, table 2, and the released configurations"
_PAPER_3 = "arXiv 2005.14165, table 2.1; vocabulary of GPT-2"
_BAND = "the width of the sparse layers' band is not published: 256, as GPT-Neo's"
_BANDED = "alternating dense and locally banded layers"

ENTRIES = (
    Entry("nanogpt-cpu", 2022, "nanoGPT's published CPU configuration on characters", "karpathy/nanoGPT, README",
          partial(gpt2, width=128, depth=4, heads=4, vocab=66, length=64, bias=False, activation="gelu", dropout=0.0),
          organisation="Andrej Karpathy"),
    Entry("gpt-1", 2018, "post-norm, learned positions", "Radford et al. 2018, section 4.1; released configuration openai-gpt",
          partial(gpt1, width=768, depth=12, heads=12, vocab=40_478, length=512)),
    Entry("gpt2", 2019, "124 M", _PAPER_2, partial(gpt2, width=768, depth=12, heads=12)),
    Entry("gpt2-medium", 2019, "355 M", _PAPER_2, partial(gpt2, width=1024, depth=24, heads=16)),
    Entry("gpt2-large", 2019, "774 M", _PAPER_2, partial(gpt2, width=1280, depth=36, heads=20)),
    Entry("gpt2-xl", 2019, "1.5 B", _PAPER_2, partial(gpt2, width=1600, depth=48, heads=25)),
    Entry("sparse-transformer-enwik8", 2019, "95 M: blocks of 128 positions and 32 summaries of each, over 12,288 bytes",
          "arXiv 1904.10509, sections 5 and 7.2",
          partial(sparse_transformer, width=512, depth=30, heads=8, vocab=256, stride=128, summary=32, length=12_288),
          "positions are the sum of a row's and a column's vector in the paper: here one for each, 6.2 M more weights; whether "
          "every head has a summary of its own is left out"),
    Entry("gpt3-small", 2020, _BANDED, _PAPER_3, partial(gpt3, width=768, depth=12, heads=12, head_width=64), _BAND),
    Entry("gpt3-medium", 2020, _BANDED, _PAPER_3, partial(gpt3, width=1024, depth=24, heads=16, head_width=64), _BAND),
    Entry("gpt3-large", 2020, _BANDED, _PAPER_3, partial(gpt3, width=1536, depth=24, heads=16, head_width=96), _BAND),
    Entry("gpt3-xl", 2020, _BANDED, _PAPER_3, partial(gpt3, width=2048, depth=24, heads=24, head_width=128), _BAND),
    Entry("gpt3-2.7b", 2020, _BANDED, _PAPER_3, partial(gpt3, width=2560, depth=32, heads=32, head_width=80), _BAND),
    Entry("gpt3-6.7b", 2020, _BANDED, _PAPER_3, partial(gpt3, width=4096, depth=32, heads=32, head_width=128), _BAND),
    Entry("gpt3-13b", 2020, _BANDED, _PAPER_3, partial(gpt3, width=5140, depth=40, heads=40, head_width=128), _BAND),
    Entry("gpt3-175b", 2020, _BANDED, _PAPER_3, partial(gpt3, width=12_288, depth=96, heads=96, head_width=128), _BAND),
)  # fmt: skip
