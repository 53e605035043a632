"""Qwen's mixtures of experts, and Qwen3-Next with three gated delta layers to one of gated attention."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    DeltaAttention,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    ScalarDecay,
    SequentialPrediction,
    SharedExpert,
    ShortConvolution,
    pre_norm,
)


def qwen_moe(
    *, width: int, depth: int, heads: int, kv_heads: int, experts: int, chosen: int, expert: int, shared: int, vocab: int
) -> Architecture:
    """Qwen1.5-MoE and Qwen2-57B (arXiv 2407.10671, section 2.2.2): fine experts beside a shared one behind a sigmoid."""
    norm = RMSNorm(eps=1e-6)
    rotary = Rotary(theta=1_000_000.0)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, bias=("query", "key", "value"), rotary=rotary),
        Experts(
            experts=experts,
            chosen=chosen,
            width=expert,
            shared=SharedExpert(feedforward=FeedForward(width=shared), gate="sigmoid"),
        ),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def qwen3_moe(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    expert: int,
    experts: int = 128,
    chosen: int = 8,
    theta: float = 1_000_000.0,
    vocab: int = 151_936,
) -> Architecture:
    """Yang et al. 2025 (arXiv 2505.09388), section 2: Qwen 3's attention, 8 of 128 experts, no shared one."""
    norm = RMSNorm(eps=1e-6)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, head_width=128, qk_norm=QKNorm(norm=norm), rotary=Rotary(theta=theta)),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def qwen3_next(*, width: int, depth: int, experts: int, chosen: int, expert: int, vocab: int = 151_936) -> Architecture:
    """Three layers of gated delta net to one of attention with an output gate, both before 10 of 512 experts.

    Norms are 1 + w, but for the one inside the delta layers.
    """
    norm = RMSNorm(eps=1e-6, gain="one_plus_weight", cast="after_gain")
    delta = DeltaAttention(
        heads=16,
        value_heads=32,
        key_width=128,
        convolution=ShortConvolution(kernel=4, activation="silu"),
        decay=ScalarDecay(),
        norm=RMSNorm(eps=1e-6),
        gate=Gate(activation="silu"),
    )
    attention = Attention(
        heads=16,
        kv_heads=2,
        head_width=256,
        qk_norm=QKNorm(norm=norm),
        rotary=Rotary(theta=10_000_000.0, fraction=0.25),
        gate=Gate(activation="sigmoid"),
    )
    feedforward = Experts(
        experts=experts,
        chosen=chosen,
        width=expert,
        router=Router(renormalise=Renormalise(eps=0.0)),
        shared=SharedExpert(feedforward=FeedForward(width=expert), gate="sigmoid"),
    )
    linear, full = pre_norm(norm, delta, feedforward), pre_norm(norm, attention, feedforward)
    layers = [linear, linear, linear, full] * (depth // 4)
    names: Named[Block] = Named(linear=linear, full=full)
    mtp = SequentialPrediction(norm=norm)
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm, mtp=mtp)


_PAPER_3 = "arXiv 2505.09388, table 2; released configuration Qwen3-{}"

ENTRIES = (
    Entry("qwen1.5-moe-a2.7b", 2024, "4 of 60 experts and a gated shared one", "released configuration Qwen1.5-MoE-A2.7B",
          partial(qwen_moe, width=2048, depth=24, heads=16, kv_heads=16, experts=60, chosen=4, expert=1408, shared=5632,
                  vocab=151_936)),
    Entry("qwen2-57b-a14b", 2024, "8 of 64 experts and a gated shared one",
          "arXiv 2407.10671, table 1; released configuration Qwen2-57B-A14B",
          partial(qwen_moe, width=3584, depth=28, heads=28, kv_heads=4, experts=64, chosen=8, expert=2560, shared=20_480,
                  vocab=151_936)),
    Entry("qwen3-30b-a3b", 2025, "8 of 128 experts", _PAPER_3.format("30B-A3B"),
          partial(qwen3_moe, width=2048, depth=48, heads=32, kv_heads=4, expert=768)),
    Entry("qwen3-235b-a22b", 2025, "8 of 128 experts", _PAPER_3.format("235B-A22B"),
          partial(qwen3_moe, width=4096, depth=94, heads=64, kv_heads=4, expert=1536)),
    Entry("qwen3-coder-480b-a35b", 2025, "8 of 160 experts", "released configuration Qwen3-Coder-480B-A35B-Instruct",
          partial(qwen3_moe, width=6144, depth=62, heads=96, kv_heads=8, expert=2560, experts=160, theta=10_000_000.0)),
    Entry("qwen3-next-80b-a3b", 2025,
          "three gated delta layers to one of gated attention, 10 of 512 experts; one more token predicted in training",
          "released configuration Qwen3-Next-80B-A3B",
          partial(qwen3_next, width=2048, depth=48, experts=512, chosen=10, expert=512)),
)  # fmt: skip
