"""Arcee's Trinity: local layers with rotary positions, global ones without, gated attention, norms before and after."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    OutputGate,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Window,
    sandwich,
)


def trinity(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, expert: int, dense: int = 2) -> Architecture:
    """Arcee 2025: three local layers to a global one; embeddings times sqrt(D); experts after the first `dense` layers."""
    norm = RMSNorm(eps=1e-5, cast="after_gain")
    full = Attention(
        heads=heads, kv_heads=kv_heads, head_width=128, project=Projection(adjust=QKNorm(norm=norm)), combine=OutputGate()
    )
    local = full.but(mask=Window(size=2048), rotary=Rotary(theta=10_000.0))
    network = FeedForward(width=ffn, activation="silu", gated=True)
    routed = fine_experts(experts=128, chosen=8, width=expert, shared=1, router=by_correction(scale=2.826))
    blocks: Named[Block] = Named(
        dense=sandwich(norm, local, network), local=sandwich(norm, local, routed), full=sandwich(norm, full, routed)
    )
    layers = ["dense" if i < dense else "full" if i % 4 == 3 else "local" for i in range(depth)]
    embedding = Embedding(vocab=200_192, scale="sqrt_width")
    return decoder_only(embedding, width, [blocks[name] for name in layers], names=blocks, final_norm=norm)


_WHAT = "8 of 128 experts, three local layers to a global one without positions, gated attention"

ENTRIES = (
    Entry("trinity-nano", 2025, _WHAT, "released configuration Trinity-Nano-Preview",
          partial(trinity, width=1024, depth=56, heads=8, kv_heads=2, ffn=3072, expert=256)),
    Entry("trinity-mini", 2025, _WHAT, "released configuration Trinity-Mini",
          partial(trinity, width=2048, depth=32, heads=32, kv_heads=4, ffn=6144, expert=1024)),
)  # fmt: skip
