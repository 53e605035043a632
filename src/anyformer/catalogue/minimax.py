"""MiniMax-Text-01: seven lightning layers to one of softmax, DeepNorm's residuals; M2: softmax attention and fine experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    Embedding,
    Experts,
    Gate,
    LightningAttention,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Step,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer


def minimax(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    head_width: int,
    experts: int,
    chosen: int,
    expert: int,
    alpha: float,
    vocab: int,
) -> Architecture:
    """MiniMax et al. 2025 (arXiv 2501.08313), section 2: x = alpha * norm(x) + f(norm(x)), a post-norm read one step later."""
    norm = RMSNorm(eps=1e-5)
    routed = Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0)))

    def block(name: str, mixer: Sublayer) -> Block:
        """Attention, then experts, each added to what it reads, times alpha."""
        branches = {name: mixer, "experts": routed}
        steps = (
            Step(norm_before=norm, branches=Named({n: Branch(sublayer=s)}), residual="normed", residual_scale=alpha)
            for n, s in branches.items()
        )
        return Block(steps=tuple(steps))

    rotary = Rotary(theta=10_000_000.0, fraction=0.5)
    softmax = block("attention", Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, rotary=rotary))
    mixer = LightningAttention(
        heads=heads,
        head_width=head_width,
        decay="by_layer",
        activation="silu",
        norm=RMSNorm(eps=1e-6),
        gate=Gate(activation="sigmoid"),
    )
    lightning = block("lightning", mixer)
    layers = [softmax if layer % 8 == 7 else lightning for layer in range(depth)]
    names: Named[Block] = Named(softmax=softmax, lightning=lightning)
    return decoder_only(Embedding(vocab=vocab), width, layers, names=names, final_norm=norm)


def minimax_m2(
    *, width: int, depth: int, heads: int, kv_heads: int, head_width: int, experts: int, chosen: int, expert: int, vocab: int
) -> Architecture:
    """MiniMax 2025: full attention in every layer; projections of queries and keys normalised, half of each head rotated."""
    norm = RMSNorm(eps=1e-6)
    router = by_correction(scale=1.0).but(renormalise=Renormalise(eps=0.0))
    block = pre_norm(
        norm,
        Attention(
            heads=heads,
            kv_heads=kv_heads,
            head_width=head_width,
            qk_norm=QKNorm(norm=norm, over="projection"),
            rotary=Rotary(theta=5_000_000.0, fraction=0.5),
        ),
        Experts(experts=experts, chosen=chosen, width=expert, router=router),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_SOURCE = "arXiv 2501.08313, section 2; MiniMax-AI/MiniMax-01, README; released configuration MiniMax-Text-01"

ENTRIES = (
    Entry("minimax-text-01", 2025, "seven lightning layers to one of softmax, 2 of 32 experts", _SOURCE,
          partial(minimax, width=6144, depth=80, heads=64, kv_heads=8, head_width=128, experts=32, chosen=2, expert=9216,
                  alpha=3.5565588200778455, vocab=200_064)),
    Entry("minimax-m2", 2025, "8 of 256 experts by sigmoid and correction", "released configuration MiniMax-M2",
          partial(minimax_m2, width=3072, depth=62, heads=48, kv_heads=8, head_width=128, experts=256, chosen=8, expert=1536,
                  vocab=200_064)),
)  # fmt: skip
