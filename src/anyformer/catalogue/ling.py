"""Ant's Ling 3: five layers of delta attention to one of gated latent attention, fine experts after the first two."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Block,
    ChannelDecay,
    DeltaAttention,
    Embedding,
    FeedForward,
    Gate,
    Groups,
    LatentAttention,
    RMSNorm,
    Rotary,
    ShortConvolution,
    pre_norm,
)


def ling3(*, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int, expert: int, group: int) -> Architecture:
    """Ant 2026: Kimi Delta Attention with a bounded decay; the last layer of each `group` is latent, a gate per head."""
    norm = RMSNorm(eps=1e-6)
    delta = DeltaAttention(
        heads=heads,
        key_width=128,
        convolution=ShortConvolution(kernel=4, activation="silu"),
        decay=ChannelDecay(bound=5.0),
        norm=RMSNorm(eps=1e-6, cast="after_gain"),
        gate=Gate(activation="sigmoid"),
    )
    latent = LatentAttention(
        heads=heads,
        kv_rank=512,
        nope_width=128,
        rope_width=64,
        value_width=128,
        norm=norm,
        rotary=Rotary(theta=6_000_000.0, pairing="adjacent"),
        gate=Gate(per="head"),
    )
    router = by_correction(scale=2.5, groups=Groups(count=8, keep=4, score="top_2"))
    routed = fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=router)
    blocks: Named[Block] = Named(
        dense=pre_norm(norm, delta, FeedForward(width=ffn)),
        delta=pre_norm(norm, delta, routed),
        latent=pre_norm(norm, latent, routed),
    )
    layers = ["dense" if i < 2 else "latent" if i % group == group - 1 else "delta" for i in range(depth)]
    return decoder_only(Embedding(vocab=157_184), width, [blocks[name] for name in layers], names=blocks, final_norm=norm)


ENTRIES = (
    Entry("ling-3.0-flash", 2026, "five delta layers to one of latent attention, 8 of 512 experts from four groups of eight",
          "transformers 5.23, defaults of BailingHybridConfig (inclusionAI/Ling-3.0-Flash)",
          partial(ling3, width=2560, depth=42, heads=32, ffn=6144, experts=512, chosen=8, expert=768, group=6)),
)  # fmt: skip
