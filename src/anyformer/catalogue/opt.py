"""OPT: GPT-3's shapes with ReLU, and two idle rows before the first learned position; XGLM and BioGPT, its kin."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    InputProjection,
    LayerNorm,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    Softmax,
    Transform,
    post_norm,
    pre_norm,
)
from anyformer.parts.positions.absolute import Position


def opt(
    *,
    width: int,
    depth: int,
    heads: int,
    embedding: int | None = None,
    vocab: int = 50_272,
    length: int = 2048,
    dropout: float = 0.1,
) -> Architecture:
    """Zhang et al. 2022 (arXiv 2205.01068), section 2.1.

    The one size with a narrow `embedding` projects it in at once and out before the head, and has norms after the residuals.
    """
    norm = LayerNorm(eps=1e-5)
    wiring = post_norm if embedding else pre_norm
    block = wiring(
        norm,
        Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")), weigh=Softmax(dropout=dropout)),
        FeedForward(width=4 * width, activation="relu", gated=False, bias=("up", "down")),
        dropout=dropout,
    )
    return decoder_only(
        Embedding(vocab=vocab),
        width,
        [block] * depth,
        embedding_width=embedding,
        input_projection=InputProjection(place="first", bias=False) if embedding else None,
        position=LearnedPosition(length=length, offset=2),
        final_norm=None if embedding else norm,
        head=Head(tied=True, transform=Transform(bias=False) if embedding else None),
    )


def fairseq(
    *, width: int, depth: int, heads: int, ffn: int, vocab: int, position: Position, dropout: float = 0.1
) -> Architecture:
    """XGLM (Lin et al. 2021, arXiv 2112.10668) and BioGPT (Luo et al. 2022, 2210.10341): GELU, embeddings times sqrt(D)."""
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=heads, project=Projection(bias=("query", "key", "value", "output")), weigh=Softmax(dropout=dropout)
    )
    network = FeedForward(width=ffn, activation="gelu", gated=False, bias=("up", "down"))
    return decoder_only(
        Embedding(vocab=vocab, scale="sqrt_width"),
        width,
        [pre_norm(norm, attention, network, dropout=dropout)] * depth,
        position=position,
        dropout=dropout,
        final_norm=norm,
        head=Head(tied=True),
    )


_XGLM = partial(fairseq, vocab=256_008, position=SinusoidalPosition(layout="halves", spacing="inclusive", offset=2))
_OF_XGLM = "arXiv 2112.10668, table 1; released configuration xglm-{}"
_MANY = "30 languages, sinusoids, GELU"
_PAPER = "arXiv 2205.01068, table 1, and the released configurations"
_WHAT = "GPT-3's shape with ReLU"

ENTRIES = (
    Entry("opt-125m", 2022, _WHAT, _PAPER, partial(opt, width=768, depth=12, heads=12)),
    Entry("opt-350m", 2022, "post-norm, embeddings half as wide", "released configuration opt-350m",
          partial(opt, width=1024, depth=24, heads=16, embedding=512)),
    Entry("opt-1.3b", 2022, _WHAT, _PAPER, partial(opt, width=2048, depth=24, heads=32)),
    Entry("opt-2.7b", 2022, _WHAT, _PAPER, partial(opt, width=2560, depth=32, heads=32)),
    Entry("opt-6.7b", 2022, _WHAT, _PAPER, partial(opt, width=4096, depth=32, heads=32)),
    Entry("opt-13b", 2022, _WHAT, _PAPER, partial(opt, width=5120, depth=40, heads=40)),
    Entry("opt-30b", 2022, _WHAT, _PAPER, partial(opt, width=7168, depth=48, heads=56)),
    Entry("opt-66b", 2022, _WHAT, _PAPER, partial(opt, width=9216, depth=64, heads=72)),
    Entry("opt-175b", 2022, _WHAT, _PAPER, partial(opt, width=12_288, depth=96, heads=96)),
    Entry("xglm-564m", 2021, _MANY, _OF_XGLM.format("564M"), partial(_XGLM, width=1024, depth=24, heads=16, ffn=4096)),
    Entry("xglm-1.7b", 2021, _MANY, _OF_XGLM.format("1.7B"), partial(_XGLM, width=2048, depth=24, heads=16, ffn=8192)),
    Entry("xglm-2.9b", 2021, _MANY, _OF_XGLM.format("2.9B"), partial(_XGLM, width=2048, depth=48, heads=16, ffn=8192)),
    Entry("xglm-7.5b", 2021, _MANY, _OF_XGLM.format("7.5B"), partial(_XGLM, width=4096, depth=32, heads=32, ffn=16_384)),
    Entry("biogpt", 2022, "abstracts of medicine, learned positions, GELU",
          "arXiv 2210.10341, section 3.1; transformers 5.23, defaults of BioGptConfig (microsoft/biogpt)",
          partial(fairseq, width=1024, depth=24, heads=16, ffn=4096, vocab=42_384,
                  position=LearnedPosition(length=1024, offset=2)), organisation="Microsoft"),
)  # fmt: skip
