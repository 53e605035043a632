"""Tiny architectures of text with images among its tokens, and their inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    Causal,
    ChainedProjector,
    Chunk,
    CondensedProjector,
    DeepStack,
    DownsampledProjector,
    Embedding,
    FeedForward,
    GatedProjector,
    GridTower,
    Head,
    ImageEncoder,
    ImageTower,
    Interleaved,
    LayerNorm,
    LearnedPosition,
    LinearProjector,
    MergedProjector,
    Numbered,
    Patches,
    PooledProjector,
    ResampledPosition,
    RMSNorm,
    Rotary,
    Sections,
    SquaresProjector,
    TiledTower,
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


TURNS = Attention(heads=2, mask=Bidirectional(), place=Rotary(axes=Axial(), rotate_in="fp32"))
GRID = GridTower(
    token=3,
    image=8,
    width=16,
    patches=Patches(size=2, frames=2, bias=False),
    stack=stack([pre_norm(NORM, TURNS, FeedForward(width=14, activation="gelu", gated=False))] * 2),
    projector=MergedProjector(norm=NORM),
)
WINDOWED = GridTower(
    token=VOCAB,
    image=8,
    width=16,
    patches=Patches(size=2, channels=1, frames=3),
    stack=stack(
        [pre_norm(RMSNorm(), TURNS.but(mask=mask), FeedForward(width=14)) for mask in (Chunk(size=16), Bidirectional())]
    ),
    projector=MergedProjector(activation="silu", bias=False),
    window=4,
)


SQUARE = CLIP.but(
    image=8, stack=stack([SEES], position=LearnedPosition(length=17)),
    projector=SquaresProjector(inner=GatedProjector(hidden=9, norm=NORM)),
)  # fmt: skip
DEEP = GRID.but(
    position=ResampledPosition(side=3),
    deep=DeepStack(layers=(0, 1), projector=MergedProjector(norm=NORM, norm_of="square", activation="silu")),
)
PIXTRAL = GRID.but(
    patches=Patches(size=2, bias=False),
    stack=stack(
        [pre_norm(RMSNorm(), Attention(heads=2, mask=Bidirectional(), place=Rotary(axes=Axial(frequencies="dealt"))),
                  FeedForward(width=14))] * 2, input_norm=RMSNorm(),
    ),
    projector=CondensedProjector(norm=RMSNorm(), inner=TwoLayerProjector(hidden=11, norm=NORM, bias=False)),
    position=ResampledPosition(side=3, by="bicubic", corners="edges"),
    counted="line",
    sequence="rows",
    breaks=(4, 5),
)  # fmt: skip


GLM = GRID.but(
    patch_norm=RMSNorm(),
    position=ResampledPosition(side=2, by="bicubic"),
    joined=(1, 0),
)
VIP = CLIP.but(
    stack=stack([SEES] * 2, position=LearnedPosition(length=5)),
    projector=GatedProjector(hidden=9, activation="gelu", bias=False),
    joined=(0, 1),
)


LLAMA_4 = CLIP.but(
    image=8,
    stack=stack(
        [pre_norm(NORM, Attention(heads=2, mask=Bidirectional(), head_width=8, place=Rotary(theta=100.0, axes=Axial())))],
        position=LearnedPosition(length=17),
    ),
    patches=Patches(size=2, class_tokens=1, coordinates=Numbered()),
    projector=ChainedProjector(
        first=SquaresProjector(inner=TwoLayerProjector(hidden=7, bias=False)), between=9, activation="silu",
        then=LinearProjector(bias=False),
    ),
)  # fmt: skip


def _text(tower: ImageEncoder, *masks: Window | Causal, rotary: Rotary | None = None) -> Architecture:
    heads = Attention(heads=4, place=rotary or Rotary())
    blocks = [pre_norm(RMSNorm(), heads.but(mask=mask), FeedForward(width=20)) for mask in masks]
    embedding = Embedding(vocab=VOCAB, scale=2.0)
    made = decoder_only(embedding, WIDTH, blocks, final_norm=RMSNorm(), head=Head(tied=True), initialisation=LOUD)
    return made.but(images=tower)


PLAIN = TwoLayerProjector(activation="quick_gelu", bias=False)
WITH_IMAGES = {
    "clip": _text(CLIP, Causal(), Causal()),
    "clip_class_token": _text(CLIP.but(image=5, skipped=0, projector=PLAIN), Causal()),
    "siglip": _text(SIGLIP, Window(size=3), Causal()),
    "siglip_earlier": _text(SIGLIP.but(seen="earlier", projector=PooledProjector(side=4)), Causal()),
    "grid": _text(GRID, Causal(), rotary=Rotary(axes=Sections(sizes=(1, 1, 1)))),
    "grid_interleaved": _text(GRID, Window(size=5), Causal(), rotary=Rotary(axes=Interleaved(sizes=(1, 1, 1)))),
    "grid_windows": _text(WINDOWED, Causal(), rotary=Rotary(axes=Sections(sizes=(0, 1, 2)))),
    "grid_axial": _text(GRID.but(projector=MergedProjector(side=1)), Causal(), rotary=Rotary(axes=Axial(axes=3))),
    "squares": _text(SQUARE, Causal()),
    "squares_deep": _text(
        SIGLIP.but(
            seen="earlier", projector=SquaresProjector(side=4, inner=LinearProjector(bias=False)),
            deep=DeepStack(layers=(0,), projector=SquaresProjector(side=4, inner=LinearProjector())),
        ), Causal(), Window(size=3),
    ),
    "deep": _text(DEEP, Causal(), Window(size=5), Causal(), rotary=Rotary(axes=Interleaved(sizes=(1, 1, 1)))),
    "glm": _text(GLM, Causal(), rotary=Rotary(axes=Sections(sizes=(1, 1, 1)))),
    "glm_squares": _text(
        GRID.but(projector=CondensedProjector(side=1, inner=LinearProjector()), sequence="rows"),
        Causal(),
        rotary=Rotary(axes=Sections(sizes=(1, 1, 1))),
    ),
    "vip": _text(VIP, Causal()),
    "downsampled": _text(
        SIGLIP.but(
            seen="earlier", projector=DownsampledProjector(side=4, hidden=7, norm=NORM, activation="gelu"),
            patches=Patches(size=2, channels=1),
        ),
        Causal(),
    ),
    "pixtral": _text(PIXTRAL, Causal()),
    "llama4": _text(LLAMA_4, Causal()),
    "siglip2": _text(
        GRID.but(
            counted="line", sequence="rows",
            position=ResampledPosition(side=7, corners="edges", antialias=True),
            projector=ChainedProjector(first=MergedProjector(norm=NORM), between=9, then=TwoLayerProjector(hidden=7)),
        ),
        Causal(),
    ),
}  # fmt: skip
TILED = TiledTower(
    token=3, image=4, width=12, patches=CLIP.patches, stack=CLIP.stack, skipped=1, projector=TwoLayerProjector(), grid=(2, 1),
)  # fmt: skip
IN_TILES = {
    "tiles": _text(TILED.but(deep=DeepStack(layers=(0,), projector=TwoLayerProjector())), Causal(), Window(size=5)),
    "tiles_shrunk": _text(TILED.but(most=1, grid=(2, 2), stack=VIP.stack, joined=(0, 1)), Causal()),
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
