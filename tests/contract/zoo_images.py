"""Tiny architectures of text with images among its tokens, and their inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    Embedding,
    FeedForward,
    Head,
    ImageTower,
    LayerNorm,
    LearnedPosition,
    Patches,
    PooledProjector,
    RMSNorm,
    Rotary,
    TwoLayerProjector,
    Window,
    pre_norm,
    stack,
)
from anyformer.testing.around import LOUD, VOCAB, WIDTH

NORM = LayerNorm()
SEES = pre_norm(
    NORM, Attention(heads=2, mask=Bidirectional()), FeedForward(width=14, activation="gelu", gated=False, bias=("up", "down"))
)
CLIP = ImageTower(
    token=3,
    image=4,
    width=12,
    patches=Patches(size=2, class_tokens=1, bias=False),
    stack=stack([SEES] * 2, position=LearnedPosition(length=5), input_norm=NORM),
    skipped=1,
    projector=TwoLayerProjector(),
)
SIGLIP = ImageTower(
    token=VOCAB,
    image=8,
    width=10,
    patches=Patches(size=2, channels=1),
    stack=stack([SEES], final_norm=NORM),
    projector=PooledProjector(side=2, norm=RMSNorm(), bias=True),
    seen="whole",
)


def _text(tower: ImageTower, *masks: Window | Causal) -> Architecture:
    blocks = [pre_norm(RMSNorm(), Attention(heads=4, rotary=Rotary(), mask=mask), FeedForward(width=20)) for mask in masks]
    embedding = Embedding(vocab=VOCAB, scale=2.0)
    made = decoder_only(embedding, WIDTH, blocks, final_norm=RMSNorm(), head=Head(tied=True), initialisation=LOUD)
    return made.but(images=tower)


PLAIN = TwoLayerProjector(activation="quick_gelu", bias=False)
WITH_IMAGES = {
    "clip": _text(CLIP, Causal(), Causal()),
    "clip_class_token": _text(CLIP.but(skipped=0, projector=PLAIN), Causal()),
    "siglip": _text(SIGLIP, Window(size=3), Causal()),
    "siglip_earlier": _text(SIGLIP.but(seen="earlier", projector=PooledProjector(side=4)), Causal()),
}
IMAGES = 2
"""Images of each row."""


def given(architecture: Architecture, rows: int = 1) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) with `IMAGES` images in each row, one position later in each, and the images."""
    tower = architecture.images
    assert tower is not None
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(4, VOCAB, (rows, 5 + IMAGES * (tower.tokens + 1)), generator=generator)
    for row in range(rows):
        for k in range(IMAGES):
            first = 1 + row + k * (tower.tokens + 1)
            tokens[row, first : first + tower.tokens] = tower.token
    shape = rows * IMAGES, tower.patches.channels, tower.image, tower.image
    return tokens, torch.randn(shape, generator=generator)
