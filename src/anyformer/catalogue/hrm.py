"""HRM-Text: two stacks that run in cycles, a fast and a slow one, whose layers share their weights from pass to pass."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Causal,
    Cycles,
    Embedding,
    FeedForward,
    Head,
    OutputGate,
    Prefix,
    RMSNorm,
    Rotary,
    pre_norm,
)


def hrm_text_1b() -> Architecture:
    """Sapient Intelligence 2026: of the first cycle's fast passes none has gradients, of the last one's all."""
    norm = RMSNorm(eps=1e-6, gain="none")
    attention = Attention(heads=12, head_width=128, mask=Causal() | Prefix(), place=Rotary(), combine=OutputGate())
    block = pre_norm(norm, attention, FeedForward(width=4096, activation="silu", gated=True))
    mixes, thinks = block.steps
    stack = Cycles(layers=16, fast=3, learning=(0, 3)).stack(block, block.but(steps=(mixes, thinks.but(norm_after=norm))))
    embedding = Embedding(vocab=65_536, scale=39.19)
    return Architecture(width=1536, embedding=embedding, decoder=stack, head=Head())


ENTRIES = (
    Entry("hrm-text-1b", 2026, "two stacks in cycles, a fast and a slow one; a prefix read both ways",
          "arXiv 2506.21734; released configuration HRM-Text-1B", hrm_text_1b),
)  # fmt: skip
