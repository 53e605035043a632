"""Liquid AI's LFM2 and LFM3: gated short convolutions in most layers, attention with normed heads in the others."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    GatedConvolution,
    Head,
    OutputGate,
    Projection,
    Proportional,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScoreCorrectionBias,
    ShortConvolution,
    TopK,
    Window,
    pre_norm,
    sandwich,
)

NORM = RMSNorm(eps=1e-5)
CONVOLUTION = GatedConvolution(convolution=ShortConvolution(kernel=3))


def lfm2(
    *,
    width: int,
    depth: int,
    attends: Container[int],
    heads: int,
    kv_heads: int,
    ffn: int,
    dense: int = 0,
    experts: Experts | None = None,
    vocab: int = 65_536,
) -> Architecture:
    """Liquid AI 2025 (arXiv 2511.23404), section 2: convolutions but for the layers that `attends` names.

    `experts` take the place of the feed-forward network after the first `dense` layers. Queries and keys are normalised head
    by head.
    """
    attention = Attention(
        heads=heads, kv_heads=kv_heads, project=Projection(adjust=QKNorm(norm=NORM)), place=Rotary(theta=1_000_000.0)
    )
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    first = pre_norm(NORM, CONVOLUTION, feedforward)
    convolved, attentive = (pre_norm(NORM, mixer, experts or feedforward) for mixer in (CONVOLUTION, attention))
    rest = [attentive if layer in attends else convolved for layer in range(dense, depth)]
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [first] * dense + rest,
        names=Named(dense=first, convolution=convolved, attention=attentive),
        final_norm=NORM,
        head=Head(tied=True),
    )


def lfm3(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int = 128_000) -> Architecture:
    """Liquid AI 2026: every other layer attends, a global one and one in a window by turns; norms before and after sublayers.

    Heads have a gate. Global layers rotate half of the pairs, slowly.
    """
    slow = Rotary(theta=1_000_000.0, scaling=Proportional(fraction=0.5))
    full = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=NORM)),
        place=slow,
        combine=OutputGate(per="head"),
    )
    local = full.but(mask=Window(size=256), rotary=Rotary(theta=10_000.0))
    convolution = GatedConvolution(convolution=ShortConvolution(kernel=7))
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    mixers = {"convolution": convolution, "full": full, "local": local}
    names: Named[Block] = Named({name: sandwich(NORM, mixer, feedforward) for name, mixer in mixers.items()})
    kinds = ["full" if i % 4 == 2 else "local" if i % 4 == 0 and i > 0 else "convolution" for i in range(depth)]
    layers = [names[kind] for kind in kinds]
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=NORM, head=Head(tied=True))


_ROUTER = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()), renormalise=Renormalise(eps=1e-6))
_ATTENDS = (2, 5, 8, 10, 12, 14)
_SOURCE = "arXiv 2511.23404; released configuration {}"
_WHAT = "ten gated convolutions, six layers of attention"

ENTRIES = (
    Entry("lfm2-350m", 2025, _WHAT, _SOURCE.format("LFM2-350M"),
          partial(lfm2, width=1024, depth=16, attends=_ATTENDS, heads=16, kv_heads=8, ffn=4608)),
    Entry("lfm2-700m", 2025, _WHAT, _SOURCE.format("LFM2-700M"),
          partial(lfm2, width=1536, depth=16, attends=_ATTENDS, heads=24, kv_heads=8, ffn=6912)),
    Entry("lfm2-1.2b", 2025, _WHAT, _SOURCE.format("LFM2-1.2B"),
          partial(lfm2, width=2048, depth=16, attends=_ATTENDS, heads=32, kv_heads=8, ffn=8192)),
    Entry("lfm2-8b-a1b", 2025, "gated convolutions, 4 of 32 experts", _SOURCE.format("LFM2-8B-A1B"),
          partial(lfm2, width=2048, depth=24, attends=(2, 6, 10, 14, 18, 21), heads=32, kv_heads=8, ffn=7168, dense=2,
                  experts=Experts(experts=32, chosen=4, width=1792, router=_ROUTER))),
    Entry("lfm3-1.7b", 2026, "thirteen gated convolutions, six global layers and five local ones, gated heads",
          "transformers 5.23, defaults of Lfm3Config (LiquidAI/LFM3-1.7B)",
          partial(lfm3, width=2048, depth=24, heads=16, kv_heads=4, ffn=7680)),
)  # fmt: skip
