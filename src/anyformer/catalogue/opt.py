"""OPT: GPT-3's shapes with ReLU, dense layers, and two idle rows before the first learned position."""

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
    Transform,
    post_norm,
    pre_norm,
)


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
        Attention(heads=heads, bias=("query", "key", "value", "output"), dropout=dropout),
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
)  # fmt: skip
