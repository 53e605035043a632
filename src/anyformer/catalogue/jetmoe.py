"""JetMoE: a mixture of attention heads, then a mixture of networks, in every layer."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import change_all
from anyformer.model import Architecture, decoder_only
from anyformer.parts import AttentionExperts, Embedding, Experts, Head, RMSNorm, Rotary, Router, TopK, pre_norm


def jetmoe(
    *, width: int, depth: int, experts: int, chosen: int, kv_heads: int, head_width: int, ffn: int, vocab: int
) -> Architecture:
    """Shen et al. 2024 (arXiv 2404.07413), section 2: both mixtures choose as many experts; a bias beside all of each."""
    norm, router = RMSNorm(eps=1e-6), Router(over="chosen", choice=TopK(by="logits"))
    heads = AttentionExperts(
        experts=experts, chosen=chosen, kv_heads=kv_heads, head_width=head_width, router=router, rotary=Rotary()
    )
    block = pre_norm(norm, heads, Experts(experts=experts, chosen=chosen, width=ffn, router=router))
    block = change_all(block, {f"{branch}.output_bias": True for branch in block.branches})
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=True))


_8B = partial(jetmoe, width=2048, depth=24, experts=8, chosen=2, kv_heads=16, head_width=128, ffn=5632, vocab=32_000)

ENTRIES = (
    Entry("jetmoe-8b", 2024, "2 of 8 experts in attention and in the network, 2.3 of 8.5 billion parameters in use",
          "arXiv 2404.07413, section 2; eps and theta of transformers' JetMoeConfig", _8B),
)  # fmt: skip
