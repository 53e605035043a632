"""IBM's Granite 3: Llama with a factor on embeddings, scores, branches and logits (muP); small ones with experts."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, Experts, FeedForward, Head, RMSNorm, Rotary, Router, pre_norm
from anyformer.parts.sublayer import Sublayer


def granite(
    feedforward: Sublayer,
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    theta: float,
    scale: float,
    logits: float,
    eps: float = 1e-5,
) -> Architecture:
    """Granite Team 2024: embeddings times 12, scores times `scale`, each branch times 0.22, logits divided by `logits`."""
    norm = RMSNorm(eps=eps)
    attention = Attention(heads=heads, kv_heads=kv_heads, rotary=Rotary(theta=theta), scale=scale)
    block = pre_norm(norm, attention, feedforward, multiplier=0.22)
    return decoder_only(
        Embedding(vocab=vocab, scale=12.0), width, [block] * depth, final_norm=norm, head=Head(tied=True, scale=1 / logits)
    )


_EXPERTS = Experts(experts=32, chosen=8, width=512, router=Router(over="chosen"))

ENTRIES = (
    Entry("granite-3.1-2b", 2024, "a Llama with muP's factors", "released configuration granite-3.1-2b-base",
          partial(granite, FeedForward(width=8192), width=2048, depth=40, heads=32, kv_heads=8, vocab=49_155, theta=5_000_000.0,
                  scale=0.015625, logits=8.0)),
    Entry("granite-3.3-8b", 2025, "a Llama with muP's factors", "released configuration granite-3.3-8b-instruct",
          partial(granite, FeedForward(width=12_800), width=4096, depth=40, heads=32, kv_heads=8, vocab=49_159,
                  theta=10_000_000.0, scale=0.0078125, logits=16.0)),
    Entry("granite-3.1-1b-a400m", 2024, "8 of 32 small experts", "released configuration granite-3.1-1b-a400m-base",
          partial(granite, _EXPERTS, width=1024, depth=24, heads=16, kv_heads=8, vocab=49_155, theta=1_500_000.0,
                  scale=0.015625, logits=6.0, eps=1e-6)),
)  # fmt: skip
