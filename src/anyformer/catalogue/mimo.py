"""Xiaomi's MiMo-V2: five local layers with sinks to a global one, keys wider than values, fine experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    Projection,
    RMSNorm,
    Rotary,
    ValueScale,
    Window,
    pre_norm,
)


def mimo_v2(
    *, width: int, depth: int, heads: int, kv_heads: int, ffn: int, experts: int, chosen: int, expert: int
) -> Architecture:
    """LLM-Core Xiaomi 2026, section 2: a third of each head is rotated, and values count 0.707 times.

    Local layers see 128 tokens before their own, and have a sink and twice the heads of keys and values.
    """
    norm = RMSNorm(eps=1e-5)
    full = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=192,
        value_width=128,
        project=Projection(adjust=ValueScale(factor=0.707)),
        place=Rotary(theta=5_000_000.0, fraction=0.334),
    )
    local = full.but(kv_heads=2 * kv_heads, sink="head", mask=Window(size=129), rotary=Rotary(theta=10_000.0, fraction=0.334))
    routed = Experts(experts=experts, chosen=chosen, width=expert, router=by_correction(scale=1.0))
    blocks: Named[Block] = Named(
        dense=pre_norm(norm, full, FeedForward(width=ffn)),
        local=pre_norm(norm, local, routed),
        full=pre_norm(norm, full, routed),
    )
    layers = [blocks["full" if layer % 6 == 5 else "local" if layer else "dense"] for layer in range(depth)]
    return decoder_only(Embedding(vocab=152_576), width, layers, names=blocks, final_norm=norm)


ENTRIES = (
    Entry("mimo-v2-flash", 2025, "8 of 256 experts, five local layers with sinks to a global one",
          "MiMo-V2-Flash Technical Report, section 2; transformers 5.23, defaults of MiMoV2FlashConfig",
          partial(mimo_v2, width=4096, depth=48, heads=64, kv_heads=4, ffn=16_384, experts=256, chosen=8, expert=2048)),
)  # fmt: skip
