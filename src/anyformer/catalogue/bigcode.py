"""BigCode: GPT-2 with one head of keys and values, then StarCoder 2 with grouped heads, rotary positions and a window."""

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
    LearnedPosition,
    Projection,
    Rotary,
    Window,
    pre_norm,
)


def starcoder(*, width: int, depth: int, heads: int, vocab: int, length: int) -> Architecture:
    """Li et al. 2023 (arXiv 2305.06161); before it SantaCoder (2301.03988)."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=1, project=Projection(bias=("query", "key", "value", "output"))),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        position=LearnedPosition(length=length),
        final_norm=norm,
        head=Head(tied=True),
    )


def starcoder2(*, width: int, depth: int, heads: int, kv_heads: int, theta: float, tied: bool = True) -> Architecture:
    """Lozhkov et al. 2024 (arXiv 2402.19173): FFN 4 D without a gate, biases everywhere, a window of 4096."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(
            heads=heads,
            kv_heads=kv_heads,
            mask=Window(size=4096),
            project=Projection(bias=("query", "key", "value", "output")),
            place=Rotary(theta=theta),
        ),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    return decoder_only(Embedding(vocab=49_152), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


_PAPER_1 = "arXiv 2305.06161; released configuration starcoder"
_PAPER_2 = "arXiv 2402.19173; released configurations"
_WHAT_2 = "grouped queries, rotary, a window of 4096"

ENTRIES = (
    Entry("santacoder", 2023, "GPT-2 with multi-query attention", "arXiv 2301.03988; released configuration santacoder",
          partial(starcoder, width=2048, depth=24, heads=16, vocab=49_280, length=2048)),
    Entry("starcoder", 2023, "GPT-2 with multi-query attention", _PAPER_1,
          partial(starcoder, width=6144, depth=40, heads=48, vocab=49_152, length=8192)),
    Entry("starcoder2-3b", 2024, _WHAT_2, _PAPER_2,
          partial(starcoder2, width=3072, depth=30, heads=24, kv_heads=2, theta=999_999.4420358813)),
    Entry("starcoder2-7b", 2024, _WHAT_2, _PAPER_2,
          partial(starcoder2, width=4608, depth=32, heads=36, kv_heads=4, theta=1_000_000.0)),
    Entry("starcoder2-15b", 2024, _WHAT_2, _PAPER_2,
          partial(starcoder2, width=6144, depth=40, heads=48, kv_heads=4, theta=100_000.0, tied=False)),
)  # fmt: skip
