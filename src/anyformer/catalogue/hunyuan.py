"""Tencent's Hunyuan: heads normalised after rotation, theta stretched; Hy3 with fine experts; Hy4 with chosen keys, streams."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, dense_then_experts, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    Head,
    IndependentConnections,
    Indexer,
    LatentAttention,
    LayerNorm,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    SharedExpert,
    SharedIndex,
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
        project=Projection(adjust=QKNorm(norm=norm, at="after_rotary")),
        place=Rotary(theta=10_000.0 * alpha ** (HEAD_WIDTH / (HEAD_WIDTH - 2))),
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
        project=Projection(adjust=QKNorm(norm=RMSNorm(eps=1e-5))),
        place=Rotary(theta=11_158_840.0),
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


def hy4(*, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int, expert: int, vocab: int) -> Architecture:
    """Tencent 2026: layers 0, 1, 5, 9, ... choose the keys for those behind them; sinks, gates, and streams never mixed."""
    norm = RMSNorm(eps=1e-5)
    rotary = Rotary(theta=10_000.0)
    attention = LatentAttention(
        heads=heads, kv_rank=512, q_rank=1536, nope_width=192, rope_width=64, value_width=256, norm=RMSNorm(eps=1e-6),
        rotary=rotary, gate=Gate(), sink="head",
    )  # fmt: skip
    choice = Indexer(
        keep=2048, heads=16, head_width=128, norm=LayerNorm(eps=1e-5), rotary=rotary.but(fraction=0.5, place="last")
    )
    routed = fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=by_correction(scale=2.827))
    own, sparse = attention.but(choice=choice), routed.but(clamp=10.0)
    blocks = {
        "first": pre_norm(norm, own, FeedForward(width=ffn)),
        "chooses": pre_norm(norm, own, sparse),
        "shares": pre_norm(norm, attention.but(choice=SharedIndex(variant="chooses", keep=choice.keep)), sparse),
    }
    layers = ["chooses" if i % 4 == 1 else "shares" for i in range(1, depth)]
    return decoder_only(
        Embedding(vocab=vocab), width, [blocks[name] for name in ("first", *layers)], names=Named(blocks), final_norm=norm,
        streams=IndependentConnections(count=4, norm_eps=1e-5, merge="learned"),
    )  # fmt: skip


ENTRIES = (
    Entry("hunyuan-7b", 2025, "heads normalised after rotation", "released configuration Hunyuan-7B-Pretrain",
          partial(hunyuan, FeedForward(width=14_336), width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
    Entry("hunyuan-a13b", 2025, "8 of 64 experts and a shared one", "Tencent-Hunyuan/Hunyuan-A13B, models/config.json",
          partial(hunyuan, _EXPERTS, width=4096, depth=32, heads=32, kv_heads=8, vocab=128_167)),
    Entry("hy3-295b-a21b", 2026, "8 of 192 experts by sigmoid and correction; one more token predicted in training",
          "released configuration Hy3, which the defaults of HYV3Config of transformers 5.23 are", _HY3),
    Entry("hy4-preview", 2026, "2048 keys chosen for four layers, 8 of 256 experts, four streams that are never mixed",
          "transformers 5.23, defaults of HYV4Config (tencent/Hy4-preview)",
          partial(hy4, width=2816, depth=34, heads=32, ffn=6912, experts=256, chosen=8, expert=768, vocab=120_832)),
)  # fmt: skip
