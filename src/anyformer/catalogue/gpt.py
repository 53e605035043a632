"""The GPT line: LayerNorm pre-norm, learned positions, GELU feed-forward, biases everywhere."""

from __future__ import annotations

from functools import partial
from typing import Literal

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    LearnedPosition,
    Normal,
    pre_norm,
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
        Attention(heads=heads, bias=("query", "key", "value", "output") if bias else (), dropout=dropout),
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
        initialisation=Initialisation(matrix=Normal(std=0.02), residual_scale=(2 * depth) ** -0.5),
    )


_PAPER = "Radford et al. 2019, table 2, and the released configurations"

ENTRIES = (
    Entry("nanogpt-cpu", 2022, "nanoGPT's published CPU configuration on characters", "karpathy/nanoGPT, README",
          partial(gpt2, width=128, depth=4, heads=4, vocab=66, length=64, bias=False, activation="gelu", dropout=0.0)),
    Entry("gpt2", 2019, "124 M", _PAPER, partial(gpt2, width=768, depth=12, heads=12)),
    Entry("gpt2-medium", 2019, "355 M", _PAPER, partial(gpt2, width=1024, depth=24, heads=16)),
    Entry("gpt2-large", 2019, "774 M", _PAPER, partial(gpt2, width=1280, depth=36, heads=20)),
    Entry("gpt2-xl", 2019, "1.5 B", _PAPER, partial(gpt2, width=1600, depth=48, heads=25)),
)  # fmt: skip
