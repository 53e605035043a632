"""Zhipu's GLM: half of each head rotated in neighbouring pairs, biases on queries, keys and values; 4.5 with experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, chosen_keys, dense_then_experts, fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    LatentAttention,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    pre_norm,
    sandwich,
)


def glm(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int, eps: float, around: bool) -> Architecture:
    """GLM Team 2024 (arXiv 2406.12793), section 2; GLM-4-0414 has norms `around` each sublayer."""
    norm = RMSNorm(eps=eps)
    wiring = sandwich if around else pre_norm
    block = wiring(
        norm,
        Attention(
            heads=heads,
            kv_heads=kv_heads,
            project=Projection(bias=("query", "key", "value")),
            place=Rotary(fraction=0.5, pairing="adjacent"),
        ),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def glm45_attention(*, heads: int, kv_heads: int, qk_norm: bool) -> Attention:
    """GLM-4.5 Team 2025 (arXiv 2508.06471), section 2.1: more heads than D / 128, half of each rotated."""
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        project=Projection(bias=("query", "key", "value"), adjust=QKNorm(norm=RMSNorm(eps=1e-5)) if qk_norm else None),
        place=Rotary(theta=1_000_000.0, fraction=0.5),
    )


_9B = partial(glm, width=4096, depth=40, heads=32, kv_heads=2, ffn=13_696, vocab=151_552)
_45 = partial(
    dense_then_experts,
    glm45_attention(heads=96, kv_heads=8, qk_norm=True),
    width=5120,
    depth=92,
    dense=3,
    ffn=12_288,
    experts=fine_experts(experts=160, chosen=8, width=1536, shared=1, router=by_correction(scale=2.5)),
    vocab=151_552,
    norm=RMSNorm(eps=1e-5),
    later=1,
)
_45_AIR = partial(
    dense_then_experts,
    glm45_attention(heads=96, kv_heads=8, qk_norm=False),
    width=4096,
    depth=46,
    dense=1,
    ffn=10_944,
    experts=fine_experts(experts=128, chosen=8, width=1408, shared=1, router=by_correction(scale=1.0)),
    vocab=151_552,
    norm=RMSNorm(eps=1e-5),
    later=1,
)
_47_FLASH = partial(
    dense_then_experts,
    LatentAttention(
        heads=20,
        kv_rank=512,
        q_rank=768,
        nope_width=192,
        rope_width=64,
        value_width=256,
        norm=RMSNorm(eps=1e-6),
        rotary=Rotary(theta=1_000_000.0, pairing="adjacent"),
    ),
    width=2048,
    depth=47,
    dense=1,
    ffn=10_240,
    experts=fine_experts(experts=64, chosen=4, width=1536, shared=1, router=by_correction(scale=1.8)),
    vocab=154_880,
    norm=RMSNorm(eps=1e-5),
    later=1,
)
_5 = partial(
    dense_then_experts,
    chosen_keys(
        LatentAttention(
            heads=64,
            kv_rank=512,
            q_rank=2048,
            nope_width=192,
            rope_width=64,
            value_width=256,
            norm=RMSNorm(eps=1e-6),
            rotary=Rotary(theta=1_000_000.0, pairing="adjacent"),
        ),
        heads=32,
        pairing="adjacent",
    ),
    width=6144,
    depth=78,
    dense=3,
    ffn=12_288,
    experts=fine_experts(experts=256, chosen=8, width=2048, shared=1, router=by_correction(scale=2.5)),
    vocab=154_880,
    norm=RMSNorm(eps=1e-5),
    later=1,
)
_WHAT = "half of each head rotated, two heads of keys and values"

ENTRIES = (
    Entry("chatglm3-6b", 2023, _WHAT, "arXiv 2406.12793, section 2; released configuration chatglm3-6b",
          partial(glm, width=4096, depth=28, heads=32, kv_heads=2, ffn=13_696, vocab=65_024, eps=1e-5, around=False)),
    Entry("glm-4-9b", 2024, _WHAT, "arXiv 2406.12793, section 2; released configuration glm-4-9b",
          partial(_9B, eps=1.5625e-7, around=False)),
    Entry("glm-4-9b-0414", 2025, "norms before and after each sublayer", "released configuration GLM-4-9B-0414",
          partial(_9B, eps=1e-5, around=True)),
    Entry("glm-4.5", 2025, "8 of 160 experts by sigmoid and correction; one more token predicted in training",
          "arXiv 2508.06471, section 2.1 and table 1; released configuration GLM-4.5", _45),
    Entry("glm-4.5-air", 2025, "8 of 128 experts by sigmoid and correction; one more token predicted in training",
          "arXiv 2508.06471, section 2.1 and table 1; released configuration GLM-4.5-Air", _45_AIR),
    Entry("glm-4.6", 2025, "GLM-4.5, trained further", "released configuration GLM-4.6", _45),
    Entry("glm-4.7", 2025, "GLM-4.5, trained further", "released configuration GLM-4.7", _45),
    Entry("glm-4.7-flash", 2026, "latent attention, 4 of 64 experts by sigmoid and correction",
          "released configuration GLM-4.7-Flash", _47_FLASH),
    Entry("glm-5", 2026, "latent attention over 2048 keys per query, 8 of 256 experts by sigmoid and correction",
          "transformers 5.23, defaults of GlmMoeDsaConfig (zai-org/GLM-5)", _5,
          "theta 1,000,000 of GLM-4.7-Flash, as the defaults name none"),
)  # fmt: skip
