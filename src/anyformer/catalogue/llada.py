"""LLaDA: a masked diffusion model of text, a Llama that sees both ways."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_only
from anyformer.parts import Attention, Bidirectional, Embedding, FeedForward, Head, RMSNorm, Rotary, pre_norm


def llada(*, width: int, depth: int, heads: int, ffn: int, vocab: int) -> Architecture:
    """Nie et al. 2025 (arXiv 2502.09992), section 2.2: multi-head attention without a causal mask, SwiGLU, RMSNorm, rotary."""
    norm = RMSNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, mask=Bidirectional(), place=Rotary(theta=500_000.0)),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return encoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=norm, head=Head())


ENTRIES = (
    Entry("llada-8b", 2025, "masked diffusion: a Llama that sees both ways, tokens revealed by confidence",
          "arXiv 2502.09992, table 5; released configuration LLaDA-8B-Base",
          partial(llada, width=4096, depth=32, heads=32, ffn=12_288, vocab=126_464)),
)  # fmt: skip
