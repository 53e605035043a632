"""The Vision Transformer: an image's patches as positions, a class token that the head reads."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Patches,
    Projection,
    pre_norm,
)


def vit(*, width: int, depth: int, heads: int, patch: int, image: int = 224, classes: int = 1000) -> Architecture:
    """Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1; FFN 4 D, learned positions for the patches of one image size."""
    norm = LayerNorm(eps=1e-12)
    block = pre_norm(
        norm,
        Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=("query", "key", "value", "output"))),
        FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down")),
    )
    return encoder_only(
        Patches(size=patch, class_tokens=1),
        width,
        [block] * depth,
        position=LearnedPosition(length=(image // patch) ** 2 + 1),
        final_norm=norm,
        head=Head(outputs=classes, pool="first", bias=True),
    )


_PAPER = "arXiv 2010.11929, table 1; a head for ImageNet's 1000 classes and images of 224 x 224"
_WHAT = "patches of {0} x {0}, a class token"

ENTRIES = (
    Entry("vit-base-16", 2020, _WHAT.format(16), _PAPER, partial(vit, width=768, depth=12, heads=12, patch=16)),
    Entry("vit-base-32", 2020, _WHAT.format(32), _PAPER, partial(vit, width=768, depth=12, heads=12, patch=32)),
    Entry("vit-large-16", 2020, _WHAT.format(16), _PAPER, partial(vit, width=1024, depth=24, heads=16, patch=16)),
    Entry("vit-large-32", 2020, _WHAT.format(32), _PAPER, partial(vit, width=1024, depth=24, heads=16, patch=32)),
    Entry("vit-huge-14", 2020, _WHAT.format(14), _PAPER, partial(vit, width=1280, depth=32, heads=16, patch=14)),
)  # fmt: skip
