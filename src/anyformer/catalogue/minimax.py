"""MiniMax-Text-01: seven lightning layers to one of softmax, DeepNorm's residuals; M2 and M3: softmax and fine experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.deepseek import by_correction
from anyformer.catalogue.entry import Entry
from anyformer.describe import Named, change
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    BlockIndexer,
    Branch,
    Embedding,
    Experts,
    FeedForward,
    Gate,
    LightningAttention,
    Projection,
    QKNorm,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Score,
    SharedExpert,
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
    softmax = block("attention", Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, place=rotary))
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
            project=Projection(adjust=QKNorm(norm=norm, over="projection")),
            place=Rotary(theta=5_000_000.0, fraction=0.5),
        ),
        Experts(experts=experts, chosen=chosen, width=expert, router=router),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


def minimax_m3(
    *,
    width: int,
    depth: int,
    dense: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    experts: int,
    chosen: int,
    expert: int,
    vocab: int,
) -> Architecture:
    """MiniMax 2026: after `dense` layers each group of queries attends to 16 blocks of 128 keys that an indexer chooses.

    Networks are those of gpt-oss: g * sigmoid(1.702 g) * (u + 1), g at most 7 and u within 7.
    """
    norm = RMSNorm(eps=1e-6, gain="one_plus_weight", cast="after_gain")
    rotary = Rotary(theta=5_000_000.0, fraction=0.5)
    indexer = BlockIndexer(norm=norm, rotary=rotary)
    full = Attention(heads=heads, kv_heads=kv_heads, head_width=128, project=Projection(adjust=QKNorm(norm=norm)), place=rotary)
    sparse = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=128,
        project=Projection(adjust=QKNorm(norm=norm)),
        place=rotary,
        score=Score(choice=indexer),
    )
    network = FeedForward(width=expert, activation="quick_gelu", gated=True, clamp=7.0, up_offset=1.0)
    routed = Experts(
        experts=experts,
        chosen=chosen,
        width=expert,
        activation="quick_gelu",
        clamp=7.0,
        up_offset=1.0,
        router=by_correction(scale=2.0).but(renormalise=Renormalise(eps=0.0)),
        shared=SharedExpert(feedforward=network),
    )
    first, rest = pre_norm(norm, full, network.but(width=ffn)), pre_norm(norm, full, routed)
    rest = change(rest, "attention.sublayer", sparse)
    layers = [first] * dense + [rest] * (depth - dense)
    return decoder_only(Embedding(vocab=vocab), width, layers, names=Named(dense=first, sparse=rest), final_norm=norm)


_SOURCE = "arXiv 2501.08313, section 2; MiniMax-AI/MiniMax-01, README; released configuration MiniMax-Text-01"

ENTRIES = (
    Entry("minimax-text-01", 2025, "seven lightning layers to one of softmax, 2 of 32 experts", _SOURCE,
          partial(minimax, width=6144, depth=80, heads=64, kv_heads=8, head_width=128, experts=32, chosen=2, expert=9216,
                  alpha=3.5565588200778455, vocab=200_064)),
    Entry("minimax-m2", 2025, "8 of 256 experts by sigmoid and correction", "released configuration MiniMax-M2",
          partial(minimax_m2, width=3072, depth=62, heads=48, kv_heads=8, head_width=128, experts=256, chosen=8, expert=1536,
                  vocab=200_064)),
    Entry("minimax-m3", 2026, "16 blocks of 128 keys chosen per group of queries, 4 of 128 experts and a shared one",
          "released configuration MiniMax-M3, its text model; transformers 5.23, defaults of MiniMaxM3VLTextConfig",
          partial(minimax_m3, width=6144, depth=60, dense=3, heads=64, kv_heads=4, ffn=12_288, experts=128, chosen=4,
                  expert=3072, vocab=200_064)),
)  # fmt: skip
