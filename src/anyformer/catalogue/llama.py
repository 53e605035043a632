"""The Llama line: RMS pre-norm, rotary positions, gated SiLU feed-forward, no biases."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, Initialisation, Normal, RMSNorm, Rotary, pre_norm


def llama(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    theta: float = 10_000.0,
    eps: float = 1e-5,
    tied: bool = False,
) -> Architecture:
    """Touvron et al. 2023 (arXiv 2302.13971); grouped queries from Llama 2 (2307.09288) on."""
    norm = RMSNorm(eps=eps)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, rotary=Rotary(theta=theta)),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        final_norm=norm,
        head=Head(tied=tied),
        initialisation=Initialisation(matrix=Normal(std=0.02), residual_scale=(2 * depth) ** -0.5),
    )


_LLAMA_1 = partial(llama, vocab=32_000, eps=1e-6)
_LLAMA_2 = partial(llama, vocab=32_000)
_LLAMA_3 = partial(llama, vocab=128_256, theta=500_000.0)
_PAPER_1 = "arXiv 2302.13971, table 2"
_PAPER_2 = "arXiv 2307.09288, table 1 and appendix A.2"
_PAPER_3 = "arXiv 2407.21783, table 3"

ENTRIES = (
    Entry("llama-12m", 2026, "small, for a CPU: what `make train` trains", "anyformer",
          partial(llama, width=384, depth=6, heads=6, kv_heads=6, ffn=1024, vocab=4096, tied=True)),
    Entry("llama-7b", 2023, "RMS pre-norm, rotary, SwiGLU", _PAPER_1,
          partial(_LLAMA_1, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008)),
    Entry("llama-13b", 2023, "RMS pre-norm, rotary, SwiGLU", _PAPER_1,
          partial(_LLAMA_1, width=5120, depth=40, heads=40, kv_heads=40, ffn=13_824)),
    Entry("llama-2-7b", 2023, "as Llama, longer context", _PAPER_2,
          partial(_LLAMA_2, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008)),
    Entry("llama-2-70b", 2023, "grouped queries", _PAPER_2,
          partial(_LLAMA_2, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
    Entry("llama-3-8b", 2024, "grouped queries, theta 500,000, 128k vocabulary", _PAPER_3,
          partial(_LLAMA_3, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336)),
    Entry("llama-3-70b", 2024, "grouped queries, theta 500,000, 128k vocabulary", _PAPER_3,
          partial(_LLAMA_3, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
)  # fmt: skip
