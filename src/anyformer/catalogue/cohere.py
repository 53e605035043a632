"""Cohere's Command and Aya: parallel layers behind one LayerNorm without bias, neighbouring pairs rotated, a scaled head."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    QKNorm,
    Rotary,
    Window,
    parallel,
)

NORM = LayerNorm(eps=1e-5, bias=False)


def command_r(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    theta: float,
    logits: float,
    qk_norm: bool = False,
    vocab: int = 256_000,
) -> Architecture:
    """Cohere 2024; Command R+ normalises queries and keys head by head, with a gain per head."""
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        project=Projection(adjust=QKNorm(norm=NORM, over="each_head") if qk_norm else None),
        place=Rotary(theta=theta, pairing="adjacent", rotate_in="fp32"),
    )
    block = parallel(NORM, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=NORM, head=Head(tied=True, scale=logits))


def command_a(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, window: int = 4096, vocab: int = 256_000
) -> Architecture:
    """Cohere 2025 (arXiv 2504.00698), section 2: three local layers with rotary positions to one global without any."""
    rotary = Rotary(theta=50_000.0, pairing="adjacent", rotate_in="fp32")
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    local = parallel(NORM, Attention(heads=heads, kv_heads=kv_heads, mask=Window(size=window), place=rotary), feedforward)
    global_ = parallel(NORM, Attention(heads=heads, kv_heads=kv_heads), feedforward)
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [local, local, local, global_] * (depth // 4),
        names=Named({"local": local, "global": global_}),
        final_norm=NORM,
        head=Head(tied=True, scale=0.25),
    )


_35B = partial(command_r, width=8192, depth=40, heads=64, kv_heads=64, ffn=22_528, theta=8_000_000.0, logits=0.0625)
_32B = partial(command_r, width=8192, depth=40, heads=64, kv_heads=8, ffn=24_576, theta=4_000_000.0, logits=0.0625)
_8B = partial(command_r, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336, theta=10_000.0)
_RELEASE = "released configuration {}"
_WHAT = "parallel, one norm without bias"

ENTRIES = (
    Entry("command-r", 2024, _WHAT, _RELEASE.format("c4ai-command-r-v01"), _35B),
    Entry("command-r-plus", 2024, "heads normalised, each with its own gain", _RELEASE.format("c4ai-command-r-plus"),
          partial(command_r, width=12_288, depth=64, heads=96, kv_heads=8, ffn=33_792, theta=75_000_000.0, logits=5 / 6,
                  qk_norm=True)),
    Entry("command-r-08-2024", 2024, "grouped queries", _RELEASE.format("c4ai-command-r-08-2024"), _32B),
    Entry("aya-23-8b", 2024, _WHAT, "arXiv 2405.15032; released configuration aya-23-8B", partial(_8B, logits=0.0625)),
    Entry("aya-23-35b", 2024, "Command R's shape", "arXiv 2405.15032; released configuration aya-23-35B", _35B),
    Entry("aya-expanse-8b", 2024, _WHAT, "arXiv 2412.04261; released configuration aya-expanse-8b", partial(_8B, logits=0.125)),
    Entry("aya-expanse-32b", 2024, _WHAT, "arXiv 2412.04261; released configuration aya-expanse-32b", _32B),
    Entry("command-r7b", 2024, "three local layers to one global without positions",
          _RELEASE.format("c4ai-command-r7b-12-2024"),
          partial(command_a, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336)),
    Entry("command-a", 2025, "three local layers to one global without positions",
          "arXiv 2504.00698, section 2; released configuration c4ai-command-a-03-2025",
          partial(command_a, width=12_288, depth=64, heads=96, kv_heads=8, ffn=36_864)),
)  # fmt: skip
