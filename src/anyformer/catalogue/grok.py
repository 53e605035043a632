"""xAI's Grok-1: norms around each sublayer, capped scores, 2 of 8 experts with gated GELU, factors on both ends."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    Experts,
    Head,
    RMSNorm,
    Rotary,
    Score,
    sandwich,
)


def grok(
    *, width: int, depth: int, heads: int, kv_heads: int, experts: int, chosen: int, expert: int, vocab: int
) -> Architecture:
    """xAI 2024: experts are weighed by a softmax over all of them; embeddings times sqrt(D), logits times 3^-0.5."""
    norm = RMSNorm(eps=1e-5)
    block = sandwich(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, head_width=128, place=Rotary(), score=Score(softcap=30.0)),
        Experts(experts=experts, chosen=chosen, width=expert, activation="gelu_tanh"),
    )
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [block] * depth,
        final_norm=norm,
        head=Head(tied=True, scale=3**-0.5),
    )


ENTRIES = (
    Entry("grok-1", 2024, "2 of 8 experts, capped scores", "xai-org/grok-1, run.py and model.py",
          partial(grok, width=6144, depth=64, heads=48, kv_heads=8, experts=8, chosen=2, expert=32_768, vocab=131_072)),
)  # fmt: skip
