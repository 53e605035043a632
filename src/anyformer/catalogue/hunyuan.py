"""Tencent's Hunyuan: queries and keys normalised after they are rotated, theta stretched by a fixed factor."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    FeedForward,
    Head,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    SharedExpert,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer

HEAD_WIDTH = 128


def hunyuan(
    feedforward: Sublayer, *, width: int, depth: int, heads: int, kv_heads: int, vocab: int, alpha: float = 1000.0
) -> Architecture:
    """Tencent 2025: Llama's block; theta is 10,000 * alpha^(E / (E - 2)) ("NTK-aware"), whatever the length."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=HEAD_WIDTH,
        qk_norm=norm,
        qk_norm_at="after_rotary",
        rotary=Rotary(theta=10_000.0 * alpha ** (HEAD_WIDTH / (HEAD_WIDTH - 2))),
    )
    block = pre_norm(norm, attention, feedforward)
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=True))


_EXPERTS = Experts(
    experts=64,
    chosen=8,
    width=3072,
    router=Router(renormalise=Renormalise(eps=0.0)),
    shared=SharedExpert(feedforward=FeedForward(width=3072)),
)

ENTRIES = (
    Entry("hunyuan-7b", 2025, "heads normalised after rotation", "released configuration Hunyuan-7B-Pretrain",
          partial(hunyuan, FeedForward(width=14_336), width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
    Entry("hunyuan-a13b", 2025, "8 of 64 experts and a shared one", "Tencent-Hunyuan/Hunyuan-A13B, models/config.json",
          partial(hunyuan, _EXPERTS, width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
)  # fmt: skip
