"""Falcon: attention parallel to the feed-forward network, few heads of keys and values, no biases; Falcon 3 is a Llama."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, Rotary, parallel


def falcon(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    shared_norm: bool,
    tied: bool = True,
    theta: float = 10_000.0,
    vocab: int = 65_024,
) -> Architecture:
    """Almazrouei et al. 2023 (arXiv 2311.16867): one norm for both branches (7B, 11B) or one each (40B, 180B)."""
    norm = LayerNorm(eps=1e-5)
    block = parallel(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, place=Rotary(theta=theta)),
        FeedForward(width=4 * width, activation="gelu", gated=False),
        shared_norm=shared_norm,
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


_FALCON_3 = partial(llama, vocab=131_072, theta=1_000_042.0, eps=1e-6, head_width=256, kv_heads=4)
_PAPER = "arXiv 2311.16867; released configuration {}"
_PAPER_2 = "arXiv 2407.14885; released configuration falcon-11B"
_RELEASE_3 = "released configuration {}"

ENTRIES = (
    Entry("falcon-7b", 2023, "parallel, one norm, multi-query", _PAPER.format("falcon-7b"),
          partial(falcon, width=4544, depth=32, heads=71, kv_heads=1, shared_norm=True)),
    Entry("falcon-40b", 2023, "parallel, two norms, grouped queries", _PAPER.format("falcon-40b"),
          partial(falcon, width=8192, depth=60, heads=128, kv_heads=8, shared_norm=False)),
    Entry("falcon-180b", 2023, "parallel, two norms, grouped queries", _PAPER.format("falcon-180B"),
          partial(falcon, width=14_848, depth=80, heads=232, kv_heads=8, shared_norm=False, tied=False)),
    Entry("falcon2-11b", 2024, "parallel, one norm, grouped queries", _PAPER_2,
          partial(falcon, width=4096, depth=60, heads=32, kv_heads=8, shared_norm=True, tied=False, theta=500_042.0),
          training=("z-loss",)),
    Entry("falcon3-1b", 2024, "a Llama with heads 256 wide", _RELEASE_3.format("Falcon3-1B-Base"),
          partial(_FALCON_3, width=2048, depth=18, heads=8, ffn=8192)),
    Entry("falcon3-3b", 2024, "a Llama with heads 256 wide", _RELEASE_3.format("Falcon3-3B-Base"),
          partial(_FALCON_3, width=3072, depth=22, heads=12, ffn=9216)),
    Entry("falcon3-7b", 2024, "a Llama with heads 256 wide", _RELEASE_3.format("Falcon3-7B-Base"),
          partial(_FALCON_3, width=3072, depth=28, heads=12, ffn=23_040)),
    Entry("falcon3-10b", 2024, "a Llama with heads 256 wide", _RELEASE_3.format("Falcon3-10B-Base"),
          partial(_FALCON_3, width=3072, depth=40, heads=12, ffn=23_040)),
)  # fmt: skip
