"""SmolLM: small Llamas with tied embeddings; the third without positions in every fourth layer."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.catalogue.llama import llama
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, Rotary, pre_norm


def smollm3(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int, vocab: int, theta: float) -> Architecture:
    """Hugging Face 2025: Llama with every fourth layer without positions (NoPE)."""
    norm = RMSNorm(eps=1e-6)
    feedforward = FeedForward(width=ffn, activation="silu", gated=True)
    rotated = pre_norm(norm, Attention(heads=heads, kv_heads=kv_heads, place=Rotary(theta=theta)), feedforward)
    unplaced = pre_norm(norm, Attention(heads=heads, kv_heads=kv_heads), feedforward)
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [rotated, rotated, rotated, unplaced] * (depth // 4),
        names=Named(rotated=rotated, unplaced=unplaced),
        final_norm=norm,
        head=Head(tied=True),
    )


_SMALL = partial(llama, vocab=49_152, tied=True)
_135M = partial(_SMALL, width=576, depth=30, heads=9, kv_heads=3, ffn=1536)
_360M = partial(_SMALL, width=960, depth=32, heads=15, kv_heads=5, ffn=2560)
_1_7B = partial(_SMALL, width=2048, depth=24, heads=32, kv_heads=32, ffn=8192)
_RELEASE_1 = "released configuration SmolLM-{}"
_RELEASE_2 = "arXiv 2502.02737; released configuration SmolLM2-{}"
_SOURCE_3 = "huggingface/smollm, text/pretraining/smollm3; released configuration SmolLM3-3B"

ENTRIES = (
    Entry("smollm-135m", 2024, "deep and narrow, tied", _RELEASE_1.format("135M"), _135M),
    Entry("smollm-360m", 2024, "deep and narrow, tied", _RELEASE_1.format("360M"), _360M),
    Entry("smollm-1.7b", 2024, "tied", _RELEASE_1.format("1.7B"), _1_7B),
    Entry("smollm2-135m", 2025, "theta 100,000", _RELEASE_2.format("135M"), partial(_135M, theta=100_000.0)),
    Entry("smollm2-360m", 2025, "theta 100,000", _RELEASE_2.format("360M"), partial(_360M, theta=100_000.0)),
    Entry("smollm2-1.7b", 2025, "theta 130,000", _RELEASE_2.format("1.7B"), partial(_1_7B, theta=130_000.0)),
    Entry("smollm3-3b", 2025, "every fourth layer without positions", _SOURCE_3,
          partial(smollm3, width=2048, depth=36, heads=16, kv_heads=4, ffn=11_008, vocab=128_256, theta=5_000_000.0)),
)  # fmt: skip
