"""Baichuan: Llama, at 13B with ALiBi in place of rotary positions."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    ALiBi,
    Attention,
    Embedding,
    FeedForward,
    RMSNorm,
    Score,
    pre_norm,
)


def with_alibi(*, width: int, depth: int, heads: int, ffn: int, vocab: int) -> Architecture:
    """Llama's block with ALiBi (arXiv 2309.10305, section 2.4)."""
    norm = RMSNorm(eps=1e-6)
    block = pre_norm(
        norm, Attention(heads=heads, score=Score(terms=ALiBi())), FeedForward(width=ffn, activation="silu", gated=True)
    )
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm)


_SOURCE = "arXiv 2309.10305, tables 2 and 3"

ENTRIES = (
    Entry("baichuan-7b", 2023, "a Llama", _SOURCE,
          partial(llama, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008, vocab=64_000, eps=1e-6)),
    Entry("baichuan-13b", 2023, "a Llama with ALiBi", _SOURCE,
          partial(with_alibi, width=5120, depth=40, heads=40, ffn=13_696, vocab=64_000)),
)  # fmt: skip
