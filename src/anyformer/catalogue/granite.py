"""IBM's Granite: Llama with a factor on embeddings, scores, branches and logits (muP); with experts, Mamba-2, or windows."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.state_space import dual
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Block,
    Embedding,
    Experts,
    FeedForward,
    Head,
    RMSNorm,
    Rotary,
    Router,
    Score,
    SharedExpert,
    Softmax,
    Window,
    pre_norm,
)
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
    attention = Attention(heads=heads, kv_heads=kv_heads, place=Rotary(theta=theta), score=Score(scale=scale))
    block = pre_norm(norm, attention, feedforward, multiplier=0.22)
    return decoder_only(
        Embedding(vocab=vocab, scale=12.0), width, [block] * depth, final_norm=norm, head=Head(tied=True, scale=1 / logits)
    )


def granite4(
    feedforward: Sublayer,
    *,
    width: int,
    depth: int,
    attends: Container[int],
    heads: int,
    kv_heads: int,
    branches: float = 0.22,
    mamba_width: int = 64,
    vocab: int = 100_352,
) -> Architecture:
    """IBM 2025: Mamba-2 in all layers but those that `attends` names, without positions; scores over E, logits over D / 256."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(heads=heads, kv_heads=kv_heads, score=Score(scale=heads / width))
    mixer = dual(width, heads=2 * width // mamba_width).but(head_width=mamba_width)
    linear, full = (pre_norm(norm, mixes, feedforward, multiplier=branches) for mixes in (mixer, attention))
    names: Named[Block] = Named(linear=linear, full=full)
    layers = [full if layer in attends else linear for layer in range(depth)]
    head = Head(tied=True, scale=256 / width)
    return decoder_only(Embedding(vocab=vocab, scale=12.0), width, layers, names=names, final_norm=norm, head=head)


def swash() -> Architecture:
    """IBM 2026: a global layer, then three that see 128 tokens, a sink per head."""
    norm = RMSNorm(eps=1e-5)
    attention = Attention(
        heads=20, kv_heads=4, place=Rotary(theta=10_000.0), score=Score(scale=1 / 128), weigh=Softmax(sink="head")
    )
    network = FeedForward(width=8192)
    full = pre_norm(norm, attention, network, multiplier=0.28)
    local = pre_norm(norm, attention.but(mask=Window(size=128)), network, multiplier=0.28)
    names: Named[Block] = Named(full=full, local=local)
    embedding, head = Embedding(vocab=100_352, scale=12.0), Head(tied=True, scale=0.1)
    return decoder_only(embedding, 2560, [full, local, local, local] * 6, names=names, final_norm=norm, head=head)


def _fine(experts: int, chosen: int, width: int, shared: int) -> Experts:
    """Experts weighed by a softmax over the chosen, beside one that all tokens pass."""
    everyone = SharedExpert(feedforward=FeedForward(width=shared))
    return Experts(experts=experts, chosen=chosen, width=width, router=Router(over="chosen"), shared=everyone)


_ATTENDS = (5, 15, 25, 35)
_RELEASE_4 = "released configuration granite-4.0-h-{}-base"
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
    Entry("granite-4.0-h-350m", 2025, "28 layers of Mamba-2, four of attention without positions", _RELEASE_4.format("350m"),
          partial(granite4, FeedForward(width=2048), width=768, depth=32, attends=(10, 13, 17, 27), heads=12, kv_heads=4,
                  branches=0.246, mamba_width=32)),
    Entry("granite-4.0-h-micro", 2025, "36 layers of Mamba-2, four of attention without positions", _RELEASE_4.format("micro"),
          partial(granite4, FeedForward(width=8192), width=2048, depth=40, attends=_ATTENDS, heads=32, kv_heads=8)),
    Entry("granite-4.0-h-tiny", 2025, "Mamba-2, four layers of attention, 6 of 64 experts", _RELEASE_4.format("tiny"),
          partial(granite4, _fine(64, 6, 512, 1024), width=1536, depth=40, attends=_ATTENDS, heads=12, kv_heads=4)),
    Entry("granite-4.0-h-small", 2025, "Mamba-2, four layers of attention, 10 of 72 experts", _RELEASE_4.format("small"),
          partial(granite4, _fine(72, 10, 768, 1536), width=4096, depth=40, attends=_ATTENDS, heads=32, kv_heads=8)),
    Entry("granite-swash-2b", 2026, "three local layers to one global, sinks",
          "released configuration granite-swash-2b; transformers 5.23, defaults of GraniteSWAConfig", swash),
)  # fmt: skip
