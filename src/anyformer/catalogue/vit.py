"""The Vision Transformer: an image's patches as positions, a class token that the head reads; DINOv2's features."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import change_all
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    Gain,
    Head,
    LayerNorm,
    LearnedPosition,
    Patches,
    pre_norm,
)


def vit(*, width: int, depth: int, heads: int, patch: int, image: int = 224, classes: int = 1000) -> Architecture:
    """Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1; FFN 4 D, learned positions for the patches of one image size."""
    norm = LayerNorm(eps=1e-12)
    block = pre_norm(
        norm,
        Attention(heads=heads, bias=("query", "key", "value", "output"), mask=Bidirectional()),
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


def dinov2(*, width: int, depth: int, heads: int, gated: int | None = None, image: int = 518) -> Architecture:
    """Oquab et al. 2023 (arXiv 2304.07193), appendix: patches of 14, a learned factor for each feature behind each sublayer.

    FFN 4 D with GELU, or `gated` features with SwiGLU. The output are features.
    """
    norm = LayerNorm(eps=1e-6)
    network = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    if gated:
        network = FeedForward(width=gated, activation="silu", gated=True, bias=("gate", "up", "down"))
    attention = Attention(heads=heads, bias=("query", "key", "value", "output"), mask=Bidirectional())
    block = pre_norm(norm, attention, network)
    block = change_all(block, {f"{branch}.gain": Gain(initial=1.0) for branch in block.branches})
    position = LearnedPosition(length=(image // 14) ** 2 + 1)
    return encoder_only(Patches(size=14, class_tokens=1), width, [block] * depth, position=position, final_norm=norm)


_DINO = "arXiv 2304.07193, table 17; released configuration dinov2-{}"
_PAPER = "arXiv 2010.11929, table 1; a head for ImageNet's 1000 classes and images of 224 x 224"
_WHAT = "patches of {0} x {0}, a class token"

ENTRIES = (
    Entry("vit-base-16", 2020, _WHAT.format(16), _PAPER, partial(vit, width=768, depth=12, heads=12, patch=16)),
    Entry("vit-base-32", 2020, _WHAT.format(32), _PAPER, partial(vit, width=768, depth=12, heads=12, patch=32)),
    Entry("vit-large-16", 2020, _WHAT.format(16), _PAPER, partial(vit, width=1024, depth=24, heads=16, patch=16)),
    Entry("vit-large-32", 2020, _WHAT.format(32), _PAPER, partial(vit, width=1024, depth=24, heads=16, patch=32)),
    Entry("vit-huge-14", 2020, _WHAT.format(14), _PAPER, partial(vit, width=1280, depth=32, heads=16, patch=14)),
    *(Entry(f"dinov2-{size}", 2023, "patches of 14, features of an image without labels", _DINO.format(size),
            partial(dinov2, width=width, depth=depth, heads=heads, gated=gated), organisation="Meta")
      for size, width, depth, heads, gated in (
          ("small", 384, 12, 6, None), ("base", 768, 12, 12, None), ("large", 1024, 24, 16, None),
          ("giant", 1536, 40, 24, 4096))),
)  # fmt: skip
