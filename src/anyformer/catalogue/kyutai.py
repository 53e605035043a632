"""Kyutai's Helium, the text model of Moshi, and speech to text: Llama's block."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, MarkedEmbedding, Marks, RMSNorm, Rotary, pre_norm

NORM = RMSNorm(eps=1e-8, cast="after_gain")


def helium() -> Architecture:
    """Kyutai 2025: as Llama, rotated in pairs of neighbours."""
    attention = Attention(heads=20, kv_heads=20, head_width=128, place=Rotary(theta=100_000.0, pairing="adjacent"))
    block = pre_norm(NORM, attention, FeedForward(width=7040, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=48_000), 2560, [block] * 24, final_norm=NORM)


def moshi() -> Architecture:
    """Defossez et al. 2024 (arXiv 2410.00037), section 3.2: Helium of 7 B; one more row for text that is not there yet."""
    attention = Attention(heads=32, kv_heads=32, head_width=128, place=Rotary(theta=10_000.0))
    block = pre_norm(NORM, attention, FeedForward(width=11_264, activation="silu", gated=True))
    return decoder_only(Embedding(vocab=32_001), 4096, [block] * 32, final_norm=NORM, head=Head(outputs=32_000))


def speech_to_text() -> Architecture:
    """Zeghidour et al. 2025 (arXiv 2509.08753): text, a token behind each frame of sound, which is a code of 32 books."""
    block = pre_norm(
        NORM,
        Attention(heads=32, kv_heads=32, head_width=64, place=Rotary(theta=10_000.0)),
        FeedForward(width=5632, activation="silu", gated=True),
    )
    table = MarkedEmbedding(vocab=4002, marks=tuple(Marks(rows=2049, of=(i,)) for i in range(32)))
    return decoder_only(table, 2048, [block] * 48, final_norm=NORM, head=Head(outputs=4001))


ENTRIES = (
    Entry("helium-1-2b", 2025, "a small multilingual Llama",
          "transformers 5.23, defaults of HeliumConfig (kyutai/helium-1-preview)", helium),
    Entry("moshi-7b", 2024, "a Llama that speaks: its text model",
          "arXiv 2410.00037, section 3.2; transformers 5.23, defaults of MoshiConfig (kyutai/moshiko)", moshi),
    Entry("stt-2.6b", 2025, "a Llama that writes what it hears, codes of sound beside its text",
          "transformers 5.23, defaults of KyutaiSpeechToTextConfig (kyutai/stt-2.6b-en-trfs)", speech_to_text),
)  # fmt: skip
