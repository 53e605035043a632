"""The Llama line: RMS pre-norm, rotary positions, gated SiLU feed-forward, no biases."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    Llama3Scaling,
    Normal,
    RMSNorm,
    Rotary,
    Window,
    pre_norm,
)
from anyformer.parts.positions.rotary_scaling import RotaryScaling


def llama(
    *,
    width: int,
    depth: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    head_width: int | None = None,
    theta: float = 10_000.0,
    scaling: RotaryScaling | None = None,
    eps: float = 1e-5,
    tied: bool = False,
) -> Architecture:
    """Touvron et al. 2023 (arXiv 2302.13971); grouped queries from Llama 2 (2307.09288) on."""
    norm = RMSNorm(eps=eps)
    block = pre_norm(
        norm,
        Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, place=Rotary(theta=theta, scaling=scaling)),
        FeedForward(width=ffn, activation="silu", gated=True),
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        final_norm=norm,
        head=Head(tied=tied),
        initialisation=Initialisation(matrix=Normal(std=0.02), residual_scale="inverse_sqrt_2_depth"),
    )


def cwm() -> Architecture:
    """FAIR 2025 (arXiv 2510.02387), section 3.1: Llama's block, a global layer, then three that see 8,192 tokens."""
    norm = RMSNorm(eps=1e-5)
    rotary = Rotary(theta=1_000_000.0, scaling=Llama3Scaling(factor=16.0, low=1.0, high=4.0, trained=8192))
    attention = Attention(heads=48, kv_heads=8, head_width=128, place=rotary)
    feedforward = FeedForward(width=21_504, activation="silu", gated=True)
    full = pre_norm(norm, attention, feedforward)
    local = pre_norm(norm, attention.but(mask=Window(size=8192)), feedforward)
    layers = [full, local, local, local] * 16
    return decoder_only(Embedding(vocab=128_256), 6144, layers, names=Named(full=full, local=local), final_norm=norm)


_LLAMA_1 = partial(llama, vocab=32_000, eps=1e-6)
_LLAMA_2 = partial(llama, vocab=32_000)
_LLAMA_3 = partial(llama, vocab=128_256, theta=500_000.0)
_LLAMA_31 = partial(_LLAMA_3, scaling=Llama3Scaling(factor=8.0, low=1.0, high=4.0, trained=8192))
_LLAMA_32 = partial(_LLAMA_3, scaling=Llama3Scaling(factor=32.0, low=1.0, high=4.0, trained=8192), tied=True)
_CODE = partial(llama, theta=1_000_000.0)
_PAPER_1 = "arXiv 2302.13971, table 2"
_PAPER_2 = "arXiv 2307.09288, table 1 and appendix A.2"
_PAPER_3 = "arXiv 2407.21783, table 3"
_RELEASE = "released configuration Llama-{}"
_PAPER_CODE = "arXiv 2308.12950, section 2; released configuration CodeLlama-{}-hf"
_WHAT_1 = "RMS pre-norm, rotary, SwiGLU"
_WHAT_3 = "grouped queries, theta 500,000, 128k vocabulary"
_WHAT_31 = "as Llama 3, rotary scaled for 128k tokens"
_WHAT_CODE = "as Llama 2, theta 1,000,000"

ENTRIES = (
    Entry("llama-12m", 2026, "small, for a CPU: what `make train` trains", "anyformer",
          partial(llama, width=384, depth=6, heads=6, kv_heads=6, ffn=1024, vocab=4096, tied=True), organisation="anyformer"),
    Entry("llama-7b", 2023, _WHAT_1, _PAPER_1,
          partial(_LLAMA_1, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008)),
    Entry("llama-13b", 2023, _WHAT_1, _PAPER_1,
          partial(_LLAMA_1, width=5120, depth=40, heads=40, kv_heads=40, ffn=13_824)),
    Entry("llama-33b", 2023, _WHAT_1, _PAPER_1,
          partial(_LLAMA_1, width=6656, depth=60, heads=52, kv_heads=52, ffn=17_920)),
    Entry("llama-65b", 2023, _WHAT_1, _PAPER_1,
          partial(_LLAMA_1, width=8192, depth=80, heads=64, kv_heads=64, ffn=22_016)),
    Entry("llama-2-7b", 2023, "as Llama, longer context", _PAPER_2,
          partial(_LLAMA_2, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008)),
    Entry("llama-2-13b", 2023, "as Llama, longer context", _PAPER_2,
          partial(_LLAMA_2, width=5120, depth=40, heads=40, kv_heads=40, ffn=13_824)),
    Entry("llama-2-70b", 2023, "grouped queries", _PAPER_2,
          partial(_LLAMA_2, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
    Entry("code-llama-7b", 2023, _WHAT_CODE, _PAPER_CODE.format("7b"),
          partial(_CODE, width=4096, depth=32, heads=32, kv_heads=32, ffn=11_008, vocab=32_016)),
    Entry("code-llama-13b", 2023, _WHAT_CODE, _PAPER_CODE.format("13b"),
          partial(_CODE, width=5120, depth=40, heads=40, kv_heads=40, ffn=13_824, vocab=32_016)),
    Entry("code-llama-34b", 2023, _WHAT_CODE, _PAPER_CODE.format("34b"),
          partial(_CODE, width=8192, depth=48, heads=64, kv_heads=8, ffn=22_016, vocab=32_000)),
    Entry("code-llama-70b", 2024, _WHAT_CODE, _PAPER_CODE.format("70b"),
          partial(_CODE, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672, vocab=32_016)),
    Entry("llama-3-8b", 2024, _WHAT_3, _PAPER_3,
          partial(_LLAMA_3, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336)),
    Entry("llama-3-70b", 2024, _WHAT_3, _PAPER_3,
          partial(_LLAMA_3, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
    Entry("llama-3.1-8b", 2024, _WHAT_31, _PAPER_3,
          partial(_LLAMA_31, width=4096, depth=32, heads=32, kv_heads=8, ffn=14_336)),
    Entry("llama-3.1-70b", 2024, _WHAT_31, _PAPER_3,
          partial(_LLAMA_31, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
    Entry("llama-3.1-405b", 2024, _WHAT_31, _PAPER_3,
          partial(_LLAMA_31, width=16_384, depth=126, heads=128, kv_heads=8, ffn=53_248)),
    Entry("llama-3.2-1b", 2024, "tied embedding", _RELEASE.format("3.2-1B"),
          partial(_LLAMA_32, width=2048, depth=16, heads=32, kv_heads=8, ffn=8192)),
    Entry("llama-3.2-3b", 2024, "tied embedding", _RELEASE.format("3.2-3B"),
          partial(_LLAMA_32, width=3072, depth=28, heads=24, kv_heads=8, ffn=8192)),
    Entry("llama-3.3-70b", 2024, "as Llama 3.1 70B", _RELEASE.format("3.3-70B-Instruct"),
          partial(_LLAMA_31, width=8192, depth=80, heads=64, kv_heads=8, ffn=28_672)),
    Entry("tinyllama-1.1b", 2024, "Llama 2 at 1.1 B", "arXiv 2401.02385, table 2; released configuration TinyLlama-1.1B",
          partial(_LLAMA_2, width=2048, depth=22, heads=32, kv_heads=4, ffn=5632), organisation="SUTD"),
    Entry("cwm-32b", 2025, "as Llama 3, three local layers to one global",
          "arXiv 2510.02387, section 3.1; transformers 5.23, defaults of CwmConfig (facebook/cwm)", cwm),
)  # fmt: skip
