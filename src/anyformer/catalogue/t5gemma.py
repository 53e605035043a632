"""T5Gemma: encoder-decoders made of Gemma 2, whose decoder also attends to the encoder."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.gemma import NORM
from anyformer.describe import Named
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Causal,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    Rotary,
    Score,
    Window,
    sandwich,
    stack,
)


def t5gemma(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int = 256_000) -> Architecture:
    """Zhang et al. 2025 (arXiv 2504.06225), section 3: Gemma 2 on both sides, local and global layers by turns."""
    attention = Attention(
        heads=heads, kv_heads=kv_heads, head_width=256, place=Rotary(), score=Score(scale=256**-0.5, softcap=50.0)
    )
    cross = CrossAttention(heads=heads, kv_heads=kv_heads, head_width=256, score=Score(scale=256**-0.5, softcap=50.0))
    network = FeedForward(width=ffn, activation="gelu_tanh", gated=True)
    reads: Named[Block] = Named(
        local=sandwich(NORM, attention.but(mask=Window(size=4097, after=4096)), network),
        full=sandwich(NORM, attention.but(mask=Bidirectional()), network),
    )
    writes: Named[Block] = Named(
        local=sandwich(NORM, attention.but(mask=Window(size=4096)), cross, network),
        full=sandwich(NORM, attention.but(mask=Causal()), cross, network),
    )
    table = Embedding(vocab=vocab, scale="sqrt_width")
    sides = [stack([side["local"], side["full"]] * (depth // 2), names=side, final_norm=NORM) for side in (reads, writes)]
    return encoder_decoder(table, width, *sides, decoder_embedding=table, head=Head(tied=True, softcap=30.0))


_SOURCE = "arXiv 2504.06225, section 4.1; released configuration t5gemma-{}-ul2"
_WHAT = "Gemma 2 as encoder and decoder"

ENTRIES = (
    Entry("t5gemma-2b-2b", 2025, _WHAT, _SOURCE.format("2b-2b"),
          partial(t5gemma, width=2304, depth=26, heads=8, kv_heads=4, ffn=9216)),
    Entry("t5gemma-9b-9b", 2025, _WHAT, _SOURCE.format("9b-9b"),
          partial(t5gemma, width=3584, depth=42, heads=16, kv_heads=8, ffn=14_336)),
)  # fmt: skip
