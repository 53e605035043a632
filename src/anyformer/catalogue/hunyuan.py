"""Tencent's Hunyuan: queries and keys normalised after they are rotated, theta stretched; Hy3 with fine experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, dense_then_experts, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    FeedForward,
    Head,
    QKNorm,
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
        qk_norm=QKNorm(norm=norm, at="after_rotary"),
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

_HY3 = partial(
    dense_then_experts,
    Attention(
        heads=64,
        kv_heads=8,
        head_width=HEAD_WIDTH,
        qk_norm=QKNorm(norm=RMSNorm(eps=1e-5)),
        rotary=Rotary(theta=11_158_840.0),
    ),
    width=4096,
    depth=80,
    dense=1,
    ffn=13_312,
    experts=fine_experts(experts=192, chosen=8, width=1536, shared=1, router=by_correction(scale=2.826)),
    vocab=120_832,
    norm=RMSNorm(eps=1e-5),
    later=1,
)

ENTRIES = (
    Entry("hunyuan-7b", 2025, "heads normalised after rotation", "released configuration Hunyuan-7B-Pretrain",
          partial(hunyuan, FeedForward(width=14_336), width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
    Entry("hunyuan-a13b", 2025, "8 of 64 experts and a shared one", "Tencent-Hunyuan/Hunyuan-A13B, models/config.json",
          partial(hunyuan, _EXPERTS, width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
    Entry("hy3-295b-a21b", 2026, "8 of 192 experts by sigmoid and correction; one more token predicted in training",
          "released configuration Hy3, which the defaults of HYV3Config of transformers 5.23 are", _HY3),
)  # fmt: skip
