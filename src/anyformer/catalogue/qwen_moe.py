"""Qwen's mixtures of experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    FeedForward,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    SharedExpert,
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
        Attention(heads=heads, kv_heads=kv_heads, project=Projection(bias=("query", "key", "value")), place=rotary),
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
        Attention(
            heads=heads,
            kv_heads=kv_heads,
            head_width=128,
            project=Projection(adjust=QKNorm(norm=norm)),
            place=Rotary(theta=theta),
        ),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


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
)  # fmt: skip
