"""Salesforce's CTRL, which control codes steer, and CodeGen, GPT-J's block for programs."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.eleuther import gpt_j
from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    SinusoidalPosition,
    pre_norm,
)


def ctrl() -> Architecture:
    """Keskar et al. 2019 (arXiv 1909.05858), section 3.2: pre-norm, sinusoids, a table of 246,534 tokens for both ends."""
    norm = LayerNorm(eps=1e-6)
    attention = Attention(heads=16, project=Projection(bias=("query", "key", "value", "output")))
    network = FeedForward(width=8192, activation="relu", gated=False, bias=("up", "down"))
    return decoder_only(
        Embedding(vocab=246_534, scale="sqrt_width"),
        1280,
        [pre_norm(norm, attention, network, dropout=0.1)] * 48,
        position=SinusoidalPosition(length=256, layout="halves"),
        dropout=0.1,
        final_norm=norm,
        head=Head(tied=True, bias=True),
    )


_CODEGEN = partial(gpt_j, vocab=51_200)
_PAPER = "arXiv 2203.13474, table 1; released configuration codegen-{}-mono"
_WHAT = "rotary on a part of each head, parallel layers with one norm, a head with a bias"

ENTRIES = (
    Entry("ctrl", 2019, "pre-norm, sinusoids, control codes",
          "arXiv 1909.05858, section 3.2; transformers 5.23, defaults of CTRLConfig (Salesforce/ctrl)", ctrl),
    Entry("codegen-350m", 2022, _WHAT, _PAPER.format("350M"), partial(_CODEGEN, width=1024, depth=20, heads=16, rotated=0.5)),
    Entry("codegen-2b", 2022, _WHAT, _PAPER.format("2B"), partial(_CODEGEN, width=2560, depth=32, heads=32, rotated=0.8)),
    Entry("codegen-6b", 2022, _WHAT, _PAPER.format("6B"), partial(_CODEGEN, width=4096, depth=33, heads=16, rotated=0.25)),
    Entry("codegen-16b", 2022, _WHAT, _PAPER.format("16B"), partial(_CODEGEN, width=6144, depth=34, heads=24, rotated=0.25)),
)  # fmt: skip
