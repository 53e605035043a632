"""Encoders of proteins: ESM-2, whose masked tokens count as nothing, and ESM C."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    MaskedTokens,
    Projection,
    QKNorm,
    Rotary,
    Softmax,
    Transform,
    pre_norm,
)


def esm2(*, width: int, depth: int, heads: int) -> Architecture:
    """Lin et al. 2022, supplement, section A.2: pre-norm, rotary; FFN 4 D; embeddings grow with the share of masked tokens."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=heads,
        mask=Bidirectional(),
        project=Projection(bias=("query", "key", "value", "output")),
        place=Rotary(theta=10_000.0, rotate_in="fp32"),
        weigh=Softmax(dropout=0.0),
    )
    network = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    return encoder_only(
        Embedding(vocab=33, masked=MaskedTokens(token=32)),
        width,
        [pre_norm(norm, attention, network)] * depth,
        final_norm=norm,
        head=Head(tied=True, bias=True, transform=Transform(activation="gelu", norm=norm)),
    )


def esmc(*, width: int, depth: int, heads: int, ffn: int) -> Architecture:
    """EvolutionaryScale 2024: whole projections of queries and keys normed, SwiGLU, branches divided by sqrt(depth / 36)."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=heads,
        mask=Bidirectional(),
        project=Projection(adjust=QKNorm(norm=LayerNorm(eps=1e-5, bias=False), over="projection")),
        place=Rotary(theta=10_000.0),
    )
    block = pre_norm(norm, attention, FeedForward(width=ffn, activation="silu", gated=True), multiplier=(36 / depth) ** 0.5)
    return encoder_only(
        Embedding(vocab=64),
        width,
        [block] * depth,
        final_norm=norm.but(bias=False),
        head=Head(bias=True, transform=Transform(activation="gelu", norm=norm)),
    )


_ESM2 = "Lin et al. 2022 (Science 379), supplement, table S1; released configuration esm2_{}_UR50D"
_ESMC = "evolutionaryscale/esm, esm/pretrained.py; transformers 5.23, EsmcConfig (the defaults are those of 6B)"
_SIZES = (
    ("8m", "t6_8M", 320, 6, 20), ("35m", "t12_35M", 480, 12, 20), ("150m", "t30_150M", 640, 30, 20),
    ("650m", "t33_650M", 1280, 33, 20), ("3b", "t36_3B", 2560, 36, 40), ("15b", "t48_15B", 5120, 48, 40),
)  # fmt: skip

ENTRIES = (
    *(Entry(f"esm2-{size}", 2022, "an encoder of proteins, rotary", _ESM2.format(file),
            partial(esm2, width=width, depth=depth, heads=heads), organisation="Meta")
      for size, file, width, depth, heads in _SIZES),
    *(Entry(f"esmc-{size}", 2024, "an encoder of proteins, normed projections, SwiGLU", _ESMC,
            partial(esmc, width=width, depth=depth, heads=heads, ffn=ffn), organisation="EvolutionaryScale")
      for size, width, depth, heads, ffn in (
          ("300m", 960, 30, 15, 2560), ("600m", 1152, 36, 18, 3072), ("6b", 2560, 80, 40, 6912))),
)  # fmt: skip
