"""Stability AI's StableLM: Llama with LayerNorm and a quarter of each head rotated; 12B in parallel with normed heads."""

from __future__ import annotations

from functools import partial
from typing import Literal

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    LayerNorm,
    Projection,
    QKNorm,
    Rotary,
    parallel,
    pre_norm,
)


def stablelm(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    bias: tuple[Literal["query", "key", "value"], ...] = (),
    together: bool = False,
) -> Architecture:
    """Tow et al. 2023; Bellagente et al. 2024 (arXiv 2402.17834), section 2.

    12B computes attention and feed-forward `together`, from one norm, and normalises each head with a gain of its own.
    """
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        project=Projection(
            bias=bias, adjust=QKNorm(norm=LayerNorm(eps=1e-5, bias=False), over="each_head") if together else None
        ),
        place=Rotary(fraction=0.25),
    )
    wiring = parallel if together else pre_norm
    block = wiring(norm, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


ENTRIES = (
    Entry("stablelm-3b-4e1t", 2023, "LayerNorm, a quarter of each head rotated",
          "released configuration stablelm-3b-4e1t",
          partial(stablelm, width=2560, depth=32, heads=32, kv_heads=32, ffn=6912, vocab=50_304)),
    Entry("stablelm-2-1.6b", 2024, "biases on queries, keys and values",
          "arXiv 2402.17834, table 2; released configuration stablelm-2-1_6b",
          partial(stablelm, width=2048, depth=24, heads=32, kv_heads=32, ffn=5632, vocab=100_352,
                  bias=("query", "key", "value"))),
    Entry("stablelm-2-12b", 2024, "parallel, normed heads", "released configuration stablelm-2-12b",
          partial(stablelm, width=5120, depth=40, heads=32, kv_heads=8, ffn=13_824, vocab=100_352, together=True)),
)  # fmt: skip
