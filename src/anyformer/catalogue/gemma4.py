"""Gemma 4, the dense model: wide global layers whose keys are the values, normed values, a quarter of the waves turning."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Causal, Embedding, FeedForward, Head, Proportional, RMSNorm, Rotary, Window, sandwich


def gemma4(
    *, width: int, depth: int, heads: int, kv_heads: int, global_kv_heads: int, ffn: int, window: int, vocab: int = 262_144
) -> Architecture:
    """Five local layers to one global. Scores are not scaled; gains are the weights themselves, not 1 + w.

    The release multiplies what leaves a layer by a number of the checkpoint, which is no parameter there: here it is 1.
    """
    norm = RMSNorm(eps=1e-6, cast="after_gain")
    local = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_width=256,
        qk_norm=norm,
        value_norm=RMSNorm(eps=1e-6, gain="none"),
        scale=1.0,
        rotary=Rotary(theta=10_000.0),
        mask=Window(size=window),
    )
    everywhere = local.but(
        mask=Causal(),
        kv_heads=global_kv_heads,
        head_width=512,
        values="keys",
        rotary=Rotary(theta=1_000_000.0, scaling=Proportional(fraction=0.25)),
    )
    feedforward = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    blocks = sandwich(norm, local, feedforward), sandwich(norm, everywhere, feedforward)
    return decoder_only(
        Embedding(vocab=vocab, scale=width**0.5),
        width,
        [blocks[layer % 6 == 5] for layer in range(depth)],
        names=Named(local=blocks[0], everywhere=blocks[1]),
        final_norm=norm,
        head=Head(tied=True, softcap=30.0),
    )


ENTRIES = (
    Entry("gemma-4-31b", 2026, "five local layers to one global, whose keys are its values",
          "released configuration gemma-4-31B, its text model",
          partial(gemma4, width=5376, depth=60, heads=32, kv_heads=16, global_kv_heads=4, ffn=21_504, window=1024)),
)  # fmt: skip
