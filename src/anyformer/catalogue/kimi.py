"""Moonshot's Moonlight, Kimi K2 and Kimi Linear: DeepSeek-V3's block; then three delta layers to one of latent attention."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction, dense_then_experts, fine_experts, latent_attention
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
    LatentAttention,
    RMSNorm,
    ShortConvolution,
    pre_norm,
)


def kimi_linear(
    *, width: int, depth: int, heads: int, ffn: int, experts: int, chosen: int, expert: int, vocab: int
) -> Architecture:
    """Kimi Team 2025 (arXiv 2510.26692), section 4: Kimi Delta Attention and latent attention without positions.

    Every fourth layer and the last are latent; the first has a dense feed-forward network, all others experts.
    """
    norm = RMSNorm(eps=1e-5)
    delta = DeltaAttention(
        heads=heads,
        key_width=128,
        convolution=ShortConvolution(kernel=4, activation="silu"),
        decay=ChannelDecay(rank=128),
        norm=RMSNorm(eps=1e-5, cast="after_gain"),
        gate=Gate(activation="sigmoid", rank=128),
    )
    latent = LatentAttention(heads=heads, kv_rank=512, nope_width=128, rope_width=64, value_width=128, norm=RMSNorm(eps=1e-6))
    routed = fine_experts(experts=experts, chosen=chosen, width=expert, shared=1, router=by_correction(scale=2.446))
    first = pre_norm(norm, delta, FeedForward(width=ffn))
    blocks = pre_norm(norm, delta, routed), pre_norm(norm, latent, routed)
    layers = [first, *(blocks[layer % 4 == 3 or layer == depth - 1] for layer in range(1, depth))]
    names: Named[Block] = Named(dense=first, delta=blocks[0], latent=blocks[1])
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm)


_MOONLIGHT = partial(
    dense_then_experts,
    latent_attention(heads=16, q_rank=None, theta=50_000.0, factor=1.0),
    width=2048,
    depth=27,
    dense=1,
    ffn=11_264,
    experts=fine_experts(experts=64, chosen=6, width=1408, shared=2, router=by_correction(scale=2.446)),
    vocab=163_840,
    norm=RMSNorm(eps=1e-5),
)
_K2 = partial(
    dense_then_experts,
    latent_attention(heads=64, q_rank=1536, theta=50_000.0, factor=32.0, beta_fast=1.0),
    width=7168,
    depth=61,
    dense=1,
    ffn=18_432,
    experts=fine_experts(experts=384, chosen=8, width=2048, shared=1, router=by_correction(scale=2.827)),
    vocab=163_840,
)
_LINEAR = partial(kimi_linear, width=2304, depth=27, heads=32, ffn=9216, experts=256, chosen=8, expert=1024, vocab=163_840)

ENTRIES = (
    Entry("moonlight-16b-a3b", 2025, "latent attention, 6 of 64 experts and two shared ones",
          "arXiv 2502.16982; released configuration Moonlight-16B-A3B", _MOONLIGHT),
    Entry("kimi-k2", 2025, "latent attention with half the heads of DeepSeek-V3, 8 of 384 experts",
          "arXiv 2507.20534, table 2; released configuration Kimi-K2-Base", _K2),
    Entry("kimi-linear-48b-a3b", 2025, "three delta layers to one of latent attention without positions, 8 of 256 experts",
          "arXiv 2510.26692, section 4; released configuration Kimi-Linear-48B-A3B-Base", _LINEAR),
)  # fmt: skip
