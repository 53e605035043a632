"""Gemma: heads 256 wide, gated GELU, norms of 1 + w, embeddings times sqrt(D); later double norms, windows, normed heads."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    RGLRU,
    Attention,
    Embedding,
    FeedForward,
    Head,
    LinearScaling,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Score,
    ShortConvolution,
    Window,
    pre_norm,
    sandwich,
)
from anyformer.parts.recurrence.rg_lru import PROJECTIONS

NORM = RMSNorm(eps=1e-6, gain="one_plus_weight", cast="after_gain")


def gemma(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, head_width: int = 256, vocab: int = 256_000
) -> Architecture:
    """Gemma Team 2024 (arXiv 2403.08295), section 2."""
    block = pre_norm(
        NORM,
        Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, place=Rotary()),
        FeedForward(width=ffn, activation="gelu_tanh", gated=True),
    )
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"), width, [block] * depth, final_norm=NORM, head=Head(tied=True)
    )


def gemma2(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    query_scalar: float,
    head_width: int = 256,
    window: int = 4096,
    vocab: int = 256_000,
) -> Architecture:
    """Gemma Team 2024 (arXiv 2408.00118), section 2: norms before and after, alternating local and global layers, soft caps.

    Scores are divided by sqrt(`query_scalar`), the paper's head size but for 27B: D / heads.
    """
    global_ = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        place=Rotary(),
        score=Score(scale=query_scalar**-0.5, softcap=50.0),
    )
    local = global_.but(mask=Window(size=window))
    feedforward = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    blocks = sandwich(NORM, local, feedforward), sandwich(NORM, global_, feedforward)
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        blocks * (depth // 2),
        names=Named({"local": blocks[0], "global": blocks[1]}),
        final_norm=NORM,
        head=Head(tied=True, softcap=30.0),
    )


def gemma3(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    window: int,
    query_scalar: float = 256.0,
    head_width: int = 256,
    long: bool = True,
    vocab: int = 262_208,
) -> Architecture:
    """Gemma Team 2025 (arXiv 2503.19786), section 2: five local layers to one global, normed heads in place of soft caps.

    Rotary theta is 10,000 in local layers and 1,000,000 in global ones, whose positions are divided by 8 if `long`.
    """
    global_ = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        project=Projection(adjust=QKNorm(norm=NORM)),
        place=Rotary(theta=1_000_000.0, scaling=LinearScaling(factor=8.0) if long else None),
        score=Score(scale=query_scalar**-0.5),
    )
    local = global_.but(rotary=Rotary(theta=10_000.0), mask=Window(size=window))
    feedforward = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    blocks = sandwich(NORM, local, feedforward), sandwich(NORM, global_, feedforward)
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [blocks[layer % 6 == 5] for layer in range(depth)],
        names=Named({"local": blocks[0], "global": blocks[1]}),
        final_norm=NORM,
        head=Head(tied=True),
    )


def recurrent_gemma(*, width: int, depth: int, heads: int) -> Architecture:
    """Botev et al. 2024 (arXiv 2404.07839), table 1: two layers of RG-LRU to one of local attention, networks of 3 D."""
    parts = {
        "recurrent": RGLRU(channels=width, heads=heads, convolution=ShortConvolution(kernel=4, bias=True), bias=PROJECTIONS),
        "local": Attention(
            heads=heads, kv_heads=1, mask=Window(size=2048), project=Projection(bias=("output",)), place=Rotary(fraction=0.5)
        ),
    }
    network = FeedForward(width=3 * width, activation="gelu_tanh", gated=True, bias=("gate", "up", "down"))
    blocks = {name: pre_norm(NORM, mixer, network) for name, mixer in parts.items()}
    layers = [blocks["local" if i % 3 == 2 else "recurrent"] for i in range(depth)]
    embedding = Embedding(vocab=256_000, scale="sqrt_width")
    head = Head(tied=True, softcap=30.0)
    return decoder_only(embedding, width, layers, names=Named(blocks), final_norm=NORM, head=head)


_PAPER_1 = "arXiv 2403.08295, table 1; released configuration gemma-{}"
_PAPER_2 = "arXiv 2408.00118, table 1; released configuration gemma-2-{}"
_PAPER_3 = "arXiv 2503.19786, section 2; released configuration gemma-3-{}-pt, its text model"
_WHAT_1 = "heads 256 wide, gated GELU"
_WHAT_2 = "norms before and after, alternating local and global layers, soft caps"
_WHAT_3 = "five local layers to one global, normed heads"

_WHAT_R = "Griffin: two RG-LRU layers to one of local attention"
_PAPER_R = "arXiv 2404.07839, table 1; released configuration recurrentgemma-{}"
ENTRIES = (
    Entry("gemma-2b", 2024, "multi-query, heads 256 wide, gated GELU", _PAPER_1.format("2b"),
          partial(gemma, width=2048, depth=18, heads=8, kv_heads=1, ffn=16_384)),
    Entry("gemma-7b", 2024, _WHAT_1, _PAPER_1.format("7b"),
          partial(gemma, width=3072, depth=28, heads=16, kv_heads=16, ffn=24_576)),
    Entry("gemma-2-2b", 2024, _WHAT_2, _PAPER_2.format("2b"),
          partial(gemma2, width=2304, depth=26, heads=8, kv_heads=4, ffn=9216, query_scalar=256.0)),
    Entry("gemma-2-9b", 2024, _WHAT_2, _PAPER_2.format("9b"),
          partial(gemma2, width=3584, depth=42, heads=16, kv_heads=8, ffn=14_336, query_scalar=256.0)),
    Entry("gemma-2-27b", 2024, _WHAT_2, _PAPER_2.format("27b"),
          partial(gemma2, width=4608, depth=46, heads=32, kv_heads=16, ffn=36_864, query_scalar=144.0, head_width=128)),
    Entry("recurrentgemma-2b", 2024, _WHAT_R, _PAPER_R.format("2b"), partial(recurrent_gemma, width=2560, depth=26, heads=10)),
    Entry("recurrentgemma-9b", 2024, _WHAT_R, _PAPER_R.format("9b"), partial(recurrent_gemma, width=4096, depth=38, heads=16)),
    Entry("gemma-3-1b", 2025, _WHAT_3, "arXiv 2503.19786, section 2; released configuration gemma-3-1b-pt",
          partial(gemma3, width=1152, depth=26, heads=4, kv_heads=1, ffn=6912, window=512, long=False, vocab=262_144)),
    Entry("gemma-3-4b", 2025, _WHAT_3, _PAPER_3.format("4b"),
          partial(gemma3, width=2560, depth=34, heads=8, kv_heads=4, ffn=10_240, window=1024)),
    Entry("gemma-3-12b", 2025, _WHAT_3, _PAPER_3.format("12b"),
          partial(gemma3, width=3840, depth=48, heads=16, kv_heads=8, ffn=15_360, window=1024)),
    Entry("gemma-3-27b", 2025, _WHAT_3, _PAPER_3.format("27b"),
          partial(gemma3, width=5376, depth=62, heads=32, kv_heads=16, ffn=21_504, window=1024, query_scalar=168.0,
                  head_width=128)),
)  # fmt: skip
