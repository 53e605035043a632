"""BitNet b1.58: Llama's block trained in three values per weight, with norms inside each sublayer and squared ReLU."""

from __future__ import annotations

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    RMSNorm,
    Rotary,
    SubNorm,
    pre_norm,
)


def bitnet() -> Architecture:
    """Ma et al. 2025 (arXiv 2504.12285), section 2: norms before the last matrix of each sublayer.

    How weights and activations are rounded is left to the precision of a run.
    """
    norm = RMSNorm(eps=1e-5)
    attention = Attention(heads=20, kv_heads=5, place=Rotary(theta=500_000.0), combine=SubNorm.of(norm))
    network = FeedForward(width=6912, activation="relu_squared", gated=True, sub_norm=norm)
    block = pre_norm(norm, attention, network)
    return decoder_only(Embedding(vocab=128_256), 2560, [block] * 30, final_norm=norm, head=Head(tied=True))


ENTRIES = (
    Entry("bitnet-b1.58-2b", 2025, "norms inside sublayers, gated squared ReLU, ternary weights",
          "arXiv 2504.12285, section 2; transformers 5.23, defaults of BitNetConfig (microsoft/bitnet-b1.58-2B-4T), tied",
          bitnet),
)  # fmt: skip
