"""MosaicML and Databricks: MPT with ALiBi and no bias anywhere, and the mixture of experts DBRX."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    ALiBi,
    Attention,
    Clip,
    Embedding,
    Experts,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    Renormalise,
    Rotary,
    Router,
    Score,
    pre_norm,
)


def mpt(*, width: int, depth: int, heads: int, vocab: int = 50_432) -> Architecture:
    """MosaicML 2023: ALiBi, norms without bias, FFN 4 D without a gate, tied embedding."""
    norm = LayerNorm(eps=1e-5, bias=False)
    block = pre_norm(
        norm,
        Attention(heads=heads, score=Score(terms=ALiBi())),
        FeedForward(width=4 * width, activation="gelu", gated=False),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head(tied=True))


def dbrx(
    *, width: int, depth: int, heads: int, kv_heads: int, experts: int, chosen: int, expert: int, vocab: int
) -> Architecture:
    """Databricks 2024: 4 of 16 experts, grouped queries, queries, keys and values clipped to +-8."""
    norm = LayerNorm(eps=1e-5, bias=False)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, project=Projection(adjust=Clip(bound=8.0)), place=Rotary(theta=500_000.0)),
        Experts(experts=experts, chosen=chosen, width=expert, router=Router(renormalise=Renormalise(eps=0.0))),
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


ENTRIES = (
    Entry("mpt-7b", 2023, "ALiBi, no biases", "model card of mpt-7b, table of hyper-parameters",
          partial(mpt, width=4096, depth=32, heads=32)),
    Entry("mpt-30b", 2023, "ALiBi, no biases", "model card of mpt-30b, table of hyper-parameters",
          partial(mpt, width=7168, depth=48, heads=64)),
    Entry("dbrx", 2024, "4 of 16 experts", "databricks/dbrx, model/config.json",
          partial(dbrx, width=6144, depth=40, heads=48, kv_heads=8, experts=16, chosen=4, expert=10_752, vocab=100_352)),
)  # fmt: skip
