"""Encoders of today for retrieval and many languages: rotary positions, gated networks."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.bert import SMALL_NORMAL, masked_head, post_norm_encoder
from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    RMSNorm,
    Rotary,
    post_norm,
    pre_norm,
)
from anyformer.parts.attention.projection import PROJECTIONS


def nomic() -> Architecture:
    """Nussbaum et al. 2024 (arXiv 2402.01613), section 4.1: BERT with rotary positions and SwiGLU, no biases but the norms'."""
    norm = LayerNorm(eps=1e-12)
    attention = Attention(heads=12, mask=Bidirectional(), place=Rotary(theta=1000.0))
    block = post_norm(norm, attention, FeedForward(width=3072, activation="silu", gated=True))
    return encoder_only(
        Embedding(vocab=30_528, types=2),
        768,
        [block] * 12,
        input_norm=norm,
        head=masked_head(norm, "silu"),
        initialisation=SMALL_NORMAL,
    )


def gte() -> Architecture:
    """Zhang et al. 2024 (arXiv 2407.19669), section 3.1: BERT with rotary positions and gated GELU, for 8,192 tokens."""
    norm = LayerNorm(eps=1e-12)
    attention = Attention(heads=12, mask=Bidirectional(), project=Projection(bias=PROJECTIONS), place=Rotary(theta=160_000.0))
    network = FeedForward(width=3072, activation="gelu", gated=True, bias=("down",), dropout=0.1)
    return encoder_only(
        Embedding(vocab=250_048, types=1),
        768,
        [post_norm(norm, attention, network, dropout=0.1)] * 12,
        input_norm=norm,
        dropout=0.1,
        head=masked_head(norm, "gelu"),
        initialisation=SMALL_NORMAL,
    )


def jina3() -> Architecture:
    """Sturua et al. 2024 (arXiv 2409.10173), section 3: XLM-RoBERTa with rotary positions; low-rank adapters are left aside."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(heads=16, project=Projection(bias=PROJECTIONS), place=Rotary(theta=20_000.0))
    return encoder_only(
        Embedding(vocab=250_002, types=1),
        1024,
        [post_norm_encoder(norm, attention, 4096, "gelu", 0.1)] * 24,
        input_norm=norm,
        dropout=0.1,
        head=masked_head(norm, "gelu"),
        initialisation=SMALL_NORMAL,
    )


def eurobert(*, width: int, depth: int, heads: int, kv_heads: int, ffn: int) -> Architecture:
    """Boizard et al. 2025 (arXiv 2503.05500), section 2.1: Llama's block that sees both ways, a head of its own."""
    norm = RMSNorm(eps=1e-5)
    rotary = Rotary(theta=250_000.0)
    attention = Attention(heads=heads, kv_heads=kv_heads, mask=Bidirectional(), place=rotary)
    block = pre_norm(norm, attention, FeedForward(width=ffn, activation="silu", gated=True))
    return encoder_only(Embedding(vocab=128_256), width, [block] * depth, final_norm=norm, head=Head())


_EURO = "arXiv 2503.05500, table 1; released configuration EuroBERT-{}"
_WHAT = "Llama's block that sees both ways"

ENTRIES = (
    Entry("nomic-embed-text-v1.5", 2024, "BERT with rotary positions and SwiGLU",
          "arXiv 2402.01613, section 4.1; transformers 5.23, defaults of NomicBertConfig (nomic-ai/nomic-embed-text-v1.5)",
          nomic, organisation="Nomic"),
    Entry("gte-multilingual-base", 2024, "BERT with rotary positions and gated GELU, in 70 languages",
          "arXiv 2407.19669, section 3.1; transformers 5.23, defaults of GteConfig (Alibaba-NLP/gte-multilingual-base)",
          gte, organisation="Alibaba"),
    Entry("jina-embeddings-v3", 2024, "XLM-RoBERTa with rotary positions",
          "arXiv 2409.10173, section 3; transformers 5.23, defaults of JinaEmbeddingsV3Config (jinaai/jina-embeddings-v3)",
          jina3, organisation="Jina AI"),
    Entry("eurobert-210m", 2025, _WHAT, _EURO.format("210m"),
          partial(eurobert, width=768, depth=12, heads=12, kv_heads=12, ffn=3072), organisation="EuroBERT"),
    Entry("eurobert-610m", 2025, _WHAT, _EURO.format("610m"),
          partial(eurobert, width=1152, depth=26, heads=18, kv_heads=6, ffn=4096), organisation="EuroBERT"),
    Entry("eurobert-2.1b", 2025, _WHAT, _EURO.format("2.1B"),
          partial(eurobert, width=2304, depth=32, heads=18, kv_heads=6, ffn=6144), organisation="EuroBERT"),
)  # fmt: skip
