"""OpenAI's Image GPT, which writes images pixel by pixel, and the text encoder of CLIP."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    RMSNorm,
    Softmax,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS


def image_gpt(*, width: int, depth: int, heads: int) -> Architecture:
    """Chen et al. 2020, section 3.2: GPT-2 with RMS norms over 512 colours and a first token, for 32 x 32 pixels."""
    norm = RMSNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, project=Projection(bias=PROJECTIONS), weigh=Softmax(dropout=0.1)),
        FeedForward(width=4 * width, activation="quick_gelu", gated=False, bias=("up", "down")),
        dropout=0.1,
    )
    return decoder_only(
        Embedding(vocab=513),
        width,
        [block] * depth,
        position=LearnedPosition(length=1024),
        dropout=0.1,
        final_norm=norm,
        head=Head(outputs=512),
    )


def clip_text(*, width: int, heads: int) -> Architecture:
    """Radford et al. 2021 (arXiv 2103.00020), section 2.4: twelve causal layers, whose features at the end stand for a text."""
    norm = LayerNorm(eps=1e-5)
    block = pre_norm(
        norm,
        Attention(heads=heads, project=Projection(bias=PROJECTIONS)),
        FeedForward(width=4 * width, activation="quick_gelu", gated=False, bias=("up", "down")),
    )
    layers = stack([block] * 12, position=LearnedPosition(length=77), final_norm=norm)
    return Architecture(width=width, embedding=Embedding(vocab=49_408), decoder=layers)


_IMAGE = "Chen et al. 2020 (Generative Pretraining from Pixels), section 3.2; released configuration imagegpt-{}"
_CLIP = "arXiv 2103.00020, table 20; released configuration clip-vit-{}, its text model"

ENTRIES = (
    Entry("imagegpt-small", 2020, "GPT-2 over colours of pixels", _IMAGE.format("small"),
          partial(image_gpt, width=512, depth=24, heads=8)),
    Entry("imagegpt-medium", 2020, "GPT-2 over colours of pixels", _IMAGE.format("medium"),
          partial(image_gpt, width=1024, depth=36, heads=8)),
    Entry("imagegpt-large", 2020, "GPT-2 over colours of pixels", _IMAGE.format("large"),
          partial(image_gpt, width=1536, depth=48, heads=16)),
    Entry("clip-text-base-32", 2021, "features of a text beside those of an image", _CLIP.format("base-patch32"),
          partial(clip_text, width=512, heads=8)),
    Entry("clip-text-large-14", 2021, "features of a text beside those of an image", _CLIP.format("large-patch14"),
          partial(clip_text, width=768, heads=12)),
)  # fmt: skip
