"""Qwen's dense models: Llama's block with biases on queries, keys and values, from Qwen 3 on normalised heads instead."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    pre_norm,
)


def qwen(
    *,
    width: int,
    depth: int,
    heads: int,
    ffn: int,
    vocab: int,
    kv_heads: int | None = None,
    theta: float = 1_000_000.0,
    eps: float = 1e-6,
    tied: bool = False,
) -> Architecture:
    """Bai et al. 2023 (arXiv 2309.16609), section 2.3; grouped queries from Qwen 2 (2407.10671) on.

    Qwen 1's dynamic NTK and log-n attention act beyond the trained length only and are left out; its released configurations
    name twice the width of the feed-forward network.
    """
    norm = RMSNorm(eps=eps)
    block = pre_norm(
        norm,
        Attention(
            heads=heads, kv_heads=kv_heads, project=Projection(bias=("query", "key", "value")), place=Rotary(theta=theta)
        ),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


def qwen3(
    *, width: int, depth: int, heads: int, ffn: int, vocab: int = 151_936, kv_heads: int = 8, tied: bool = False
) -> Architecture:
    """Yang et al. 2025 (arXiv 2505.09388), section 2: no biases, heads 128 wide, queries and keys normalised head by head."""
    norm = RMSNorm(eps=1e-6)
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=norm)),
        place=Rotary(theta=1_000_000.0),
    )
    block = pre_norm(norm, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=tied))


_QWEN_1 = partial(qwen, theta=10_000.0)
_SMALL = partial(qwen, vocab=151_936)
_LARGE = partial(qwen, vocab=152_064)
_EPS_5 = partial(_LARGE, eps=1e-5)
_PAPER_1 = "arXiv 2309.16609, table 1; released configuration Qwen-{}"
_PAPER_15 = "released configuration Qwen1.5-{}"
_PAPER_2 = "arXiv 2407.10671, table 1; released configuration Qwen2-{}"
_PAPER_25 = "arXiv 2412.15115, table 1; released configuration Qwen2.5-{}"
_PAPER_3 = "arXiv 2505.09388, table 1; released configuration Qwen3-{}"
_WHAT_1 = "biases on queries, keys and values"
_WHAT_15 = "as Qwen, theta 1,000,000"
_WHAT_2 = "grouped queries, biases on queries, keys and values"
_WHAT_25 = "as Qwen 2"
_WHAT_3 = "queries and keys normalised head by head"

ENTRIES = (
    Entry("qwen-1.8b", 2023, _WHAT_1, _PAPER_1.format("1_8B"),
          partial(_QWEN_1, width=2048, depth=24, heads=16, ffn=5504, vocab=151_936)),
    Entry("qwen-7b", 2023, _WHAT_1, _PAPER_1.format("7B"),
          partial(_QWEN_1, width=4096, depth=32, heads=32, ffn=11_008, vocab=151_936)),
    Entry("qwen-14b", 2023, _WHAT_1, _PAPER_1.format("14B"),
          partial(_QWEN_1, width=5120, depth=40, heads=40, ffn=13_696, vocab=152_064)),
    Entry("qwen-72b", 2023, "theta 1,000,000 from the start", "released configuration Qwen-72B",
          partial(_LARGE, width=8192, depth=80, heads=64, ffn=24_576)),
    Entry("qwen1.5-0.5b", 2024, _WHAT_15, _PAPER_15.format("0.5B"),
          partial(_SMALL, width=1024, depth=24, heads=16, ffn=2816, tied=True)),
    Entry("qwen1.5-1.8b", 2024, _WHAT_15, _PAPER_15.format("1.8B"), partial(_SMALL, width=2048, depth=24, heads=16, ffn=5504)),
    Entry("qwen1.5-4b", 2024, _WHAT_15, _PAPER_15.format("4B"), partial(_SMALL, width=2560, depth=40, heads=20, ffn=6912)),
    Entry("qwen1.5-7b", 2024, _WHAT_15, _PAPER_15.format("7B"), partial(_SMALL, width=4096, depth=32, heads=32, ffn=11_008)),
    Entry("qwen1.5-14b", 2024, _WHAT_15, _PAPER_15.format("14B"), partial(_LARGE, width=5120, depth=40, heads=40, ffn=13_696)),
    Entry("qwen1.5-32b", 2024, "grouped queries", _PAPER_15.format("32B"),
          partial(_LARGE, width=5120, depth=64, heads=40, kv_heads=8, ffn=27_392)),
    Entry("qwen1.5-72b", 2024, _WHAT_15, _PAPER_15.format("72B"), partial(_LARGE, width=8192, depth=80, heads=64, ffn=24_576)),
    Entry("qwen2-0.5b", 2024, _WHAT_2, _PAPER_2.format("0.5B"),
          partial(_SMALL, width=896, depth=24, heads=14, kv_heads=2, ffn=4864, tied=True)),
    Entry("qwen2-1.5b", 2024, _WHAT_2, _PAPER_2.format("1.5B"),
          partial(_SMALL, width=1536, depth=28, heads=12, kv_heads=2, ffn=8960, tied=True)),
    Entry("qwen2-7b", 2024, _WHAT_2, _PAPER_2.format("7B"),
          partial(_LARGE, width=3584, depth=28, heads=28, kv_heads=4, ffn=18_944)),
    Entry("qwen2-72b", 2024, _WHAT_2, _PAPER_2.format("72B"),
          partial(_EPS_5, width=8192, depth=80, heads=64, kv_heads=8, ffn=29_568)),
    Entry("qwen2.5-0.5b", 2024, _WHAT_25, _PAPER_25.format("0.5B"),
          partial(_SMALL, width=896, depth=24, heads=14, kv_heads=2, ffn=4864, tied=True)),
    Entry("qwen2.5-1.5b", 2024, _WHAT_25, _PAPER_25.format("1.5B"),
          partial(_SMALL, width=1536, depth=28, heads=12, kv_heads=2, ffn=8960, tied=True)),
    Entry("qwen2.5-3b", 2024, _WHAT_25, _PAPER_25.format("3B"),
          partial(_SMALL, width=2048, depth=36, heads=16, kv_heads=2, ffn=11_008, tied=True)),
    Entry("qwen2.5-7b", 2024, _WHAT_25, _PAPER_25.format("7B"),
          partial(_LARGE, width=3584, depth=28, heads=28, kv_heads=4, ffn=18_944)),
    Entry("qwen2.5-14b", 2024, _WHAT_25, _PAPER_25.format("14B"),
          partial(_EPS_5, width=5120, depth=48, heads=40, kv_heads=8, ffn=13_824)),
    Entry("qwen2.5-32b", 2024, _WHAT_25, _PAPER_25.format("32B"),
          partial(_EPS_5, width=5120, depth=64, heads=40, kv_heads=8, ffn=27_648)),
    Entry("qwen2.5-72b", 2024, _WHAT_25, _PAPER_25.format("72B"),
          partial(_EPS_5, width=8192, depth=80, heads=64, kv_heads=8, ffn=29_568)),
    Entry("qwen3-0.6b", 2025, _WHAT_3, _PAPER_3.format("0.6B"),
          partial(qwen3, width=1024, depth=28, heads=16, ffn=3072, tied=True)),
    Entry("qwen3-1.7b", 2025, _WHAT_3, _PAPER_3.format("1.7B"),
          partial(qwen3, width=2048, depth=28, heads=16, ffn=6144, tied=True)),
    Entry("qwen3-4b", 2025, _WHAT_3, _PAPER_3.format("4B"),
          partial(qwen3, width=2560, depth=36, heads=32, ffn=9728, tied=True)),
    Entry("qwen3-8b", 2025, _WHAT_3, _PAPER_3.format("8B"), partial(qwen3, width=4096, depth=36, heads=32, ffn=12_288)),
    Entry("qwen3-14b", 2025, _WHAT_3, _PAPER_3.format("14B"), partial(qwen3, width=5120, depth=40, heads=40, ffn=17_408)),
    Entry("qwen3-32b", 2025, _WHAT_3, _PAPER_3.format("32B"), partial(qwen3, width=5120, depth=64, heads=64, ffn=25_600)),
)  # fmt: skip
