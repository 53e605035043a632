"""Latent arrays: the Perceiver, whose latents read an image again and again, and the Set Transformer."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import Named
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    CrossAttention,
    Features,
    FeedForward,
    Head,
    InducedAttention,
    Latents,
    LayerNorm,
    Projection,
    Stack,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS


def perceiver(*, width: int, latents: int, reads: int, layers: int, heads: int, features: int, classes: int) -> Architecture:
    """Jaegle et al. 2021 (arXiv 2103.03206), section 3: latents read the input, then one another `layers` times, `reads` times.

    All reads but the first share weights, and so do the latent layers of all of them; FFN D. A read normalises the latents and
    the input, as the released code does (`CrossAttention` of deepmind-research/perceiver/perceiver.py).
    """
    norm = LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=width, activation="gelu", gated=False, bias=("up", "down"))
    read = pre_norm(norm, CrossAttention(heads=1, source_norm=norm, project=Projection(bias=PROJECTIONS)), feedforward)
    latent = pre_norm(norm, Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=PROJECTIONS)), feedforward)
    inner = [f"latent_{i}" for i in range(layers)]
    blocks: dict[str, Block] = {"first_read": read, "read": read} | dict.fromkeys(inner, latent)
    order = f"first_read {' '.join(inner)} (read {' '.join(inner)})*{reads - 1}"
    return Architecture(
        width=width,
        embedding=Features(features=features),
        latents=Latents(count=latents),
        decoder=Stack(variants=Named(blocks), order=order, shared_weights=("read", *inner), final_norm=norm),
        head=Head(outputs=classes, pool="mean", bias=True),
    )


def set_transformer(
    *, width: int, depth: int, heads: int, points: int, seeds: int, features: int, classes: int
) -> Architecture:
    """Lee et al. 2019 (arXiv 1810.00825), section 3: `depth` layers through induced `points`, then `seeds` that pool them."""
    norm = LayerNorm(eps=1e-5)
    feedforward = FeedForward(width=width, activation="relu", gated=False, bias=("up", "down"))
    attention = CrossAttention(heads=heads, project=Projection(bias=PROJECTIONS))
    induced = post_norm(norm, InducedAttention(points=points, attention=attention), feedforward)
    return Architecture(
        width=width,
        embedding=Features(features=features),
        encoder=stack([induced] * depth),
        latents=Latents(count=seeds),
        decoder=stack([post_norm(norm, attention, feedforward)]),
        head=Head(outputs=classes, pool="mean", bias=True),
    )


ENTRIES = (
    Entry("perceiver-imagenet", 2021, "512 latents that read 50,176 pixels eight times, weights shared",
          "arXiv 2103.03206, section 4.1 and appendix; pixels with their Fourier features, 261 numbers",
          partial(perceiver, width=1024, latents=512, reads=8, layers=6, heads=8, features=261, classes=1000),
          "the paper's latents read the 261 numbers of a pixel, here 1024 features made of them: 52 M parameters, not 44.9 M"),
    Entry("set-transformer-modelnet40", 2019, "point clouds through 16 induced points, one seed that pools them",
          "arXiv 1810.00825, section 5.4 and appendix",
          partial(set_transformer, width=256, depth=2, heads=4, points=16, seeds=1, features=3, classes=40),
          "the paper has a residual, norms and a network inside both halves of an induced attention, here around them",
          "University of Oxford"),
)  # fmt: skip
