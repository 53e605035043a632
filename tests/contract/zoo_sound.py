"""Tiny architectures of text with sounds among its tokens, and their inputs."""

from __future__ import annotations

import torch
from torch import Tensor
from zoo_images import NORM, SEES, SIGLIP

from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    AudioFrames,
    AveragedProjector,
    Embedding,
    FeedForward,
    Head,
    RMSNorm,
    Rotary,
    SideBySideProjector,
    SinusoidalPosition,
    SoundTower,
    TwoLayerProjector,
    pre_norm,
    stack,
)
from anyformer.testing.around import LOUD, VOCAB, WIDTH

TOWER = SoundTower(
    token=3,
    sound=16,
    width=12,
    embedding=AudioFrames(features=5),
    stack=stack([SEES] * 2, position=SinusoidalPosition(length=8), final_norm=NORM),
    projector=SideBySideProjector(count=2, activation="silu", bias=False),
)
AVERAGED = TOWER.but(
    token=VOCAB + 1, sound=14, stack=stack([SEES]), projector=AveragedProjector(count=3, norm=NORM, activation="gelu")
)


def _text(tower: SoundTower) -> Architecture:
    block = pre_norm(RMSNorm(), Attention(heads=4, kv_heads=2, place=Rotary()), FeedForward(width=20))
    made = decoder_only(
        Embedding(vocab=VOCAB), WIDTH, [block] * 2, final_norm=RMSNorm(), head=Head(tied=True), initialisation=LOUD
    )
    return made.but(audio=tower)


WITH_SOUND = {
    "sound_side_by_side": _text(TOWER),
    "sound_averaged": _text(AVERAGED),
    "sound_averaged_once": _text(AVERAGED.but(projector=AveragedProjector(bias=False))),
    "sound_each_position": _text(TOWER.but(projector=TwoLayerProjector())),
    "sound_with_images": _text(TOWER).but(images=SIGLIP),
}
SOUNDS = 2
"""Sounds of each row."""


def given(architecture: Architecture, rows: int = 1) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) with `SOUNDS` sounds in each row, one position later in each, and the frames of the sounds."""
    tower = architecture.audio
    assert tower is not None
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(4, VOCAB, (rows, 5 + SOUNDS * (tower.tokens + 1)), generator=generator)
    for row in range(rows):
        for k in range(SOUNDS):
            first = 1 + row + k * (tower.tokens + 1)
            tokens[row, first : first + tower.tokens] = tower.token
    return tokens, torch.randn(rows * SOUNDS, tower.sound, tower.embedding.features, generator=generator)
