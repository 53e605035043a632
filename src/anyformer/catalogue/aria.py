"""Rhymes' Aria: the text model, Llama's block with fine experts beside shared ones in every layer."""

from __future__ import annotations

from anyformer.catalogue.deepseek import fine_experts
from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, RMSNorm, Rotary, Router, pre_norm


def aria() -> Architecture:
    """Li et al. 2024 (arXiv 2410.05993), section 2.1: 6 of 64 experts weighed by a softmax over them, two shared ones."""
    norm = RMSNorm(eps=1e-6)
    routed = fine_experts(experts=64, chosen=6, width=1664, shared=2, router=Router(over="chosen"))
    attention = Attention(heads=20, kv_heads=20, head_width=128, place=Rotary(theta=5_000_000.0))
    block = pre_norm(norm, attention, routed)
    return decoder_only(Embedding(vocab=100_352), 2560, [block] * 28, final_norm=norm)


ENTRIES = (
    Entry("aria-25b", 2024, "6 of 64 experts and two shared ones; the text model",
          "arXiv 2410.05993, section 2.1; released configuration Aria, its text model", aria),
)  # fmt: skip
