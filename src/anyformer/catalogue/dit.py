"""Diffusion transformers: patches of a noisy latent image, layers modulated by its time and its class."""

from __future__ import annotations

from functools import partial

from anyformer.catalogue.entry import Entry
from anyformer.describe import change_all
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Condition,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    Modulation,
    Normal,
    Patches,
    Projection,
    SinusoidalGrid,
    Xavier,
    pre_norm,
)


def dit(
    *, width: int, depth: int, heads: int, patch: int, image: int = 32, channels: int = 4, classes: int = 1000
) -> Architecture:
    """Peebles & Xie 2022 (arXiv 2212.09748), sections 3.2 and 3.3: adaLN-Zero, FFN 4 D, a noise and a variance of every number.

    `image`: pixels of a side, or numbers of a side of a latent image, an eighth of the pixels.
    """
    norm = LayerNorm(eps=1e-6, gain="none", bias=False)
    block = pre_norm(
        norm,
        Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=("query", "key", "value", "output"))),
        FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down")),
    )
    own = change_all(block, {"attention.modulation": Modulation(), "feedforward.modulation": Modulation()})
    return encoder_only(
        Patches(size=patch, channels=channels),
        width,
        [own] * depth,
        position=SinusoidalGrid(columns=image // patch, length=(image // patch) ** 2),
        final_norm=norm,
        final_modulation=Modulation(gate=False),
        condition=Condition(classes=classes),
        head=Head(outputs=2 * channels * patch**2, bias=True),
        initialisation=Initialisation(matrix=Xavier(), head=Normal(std=0.0)),
    )


_PAPER = "arXiv 2212.09748, table 1; latent images of 32 x 32 x 4 (of 256 x 256 pixels), ImageNet's 1000 classes"
_WHAT = "patches of a noisy image, {0} x {0}; adaptive layer norm by time and class"

ENTRIES = (
    Entry("dit-s-2", 2022, _WHAT.format(2), _PAPER, partial(dit, width=384, depth=12, heads=6, patch=2)),
    Entry("dit-b-2", 2022, _WHAT.format(2), _PAPER, partial(dit, width=768, depth=12, heads=12, patch=2)),
    Entry("dit-b-4", 2022, _WHAT.format(4), _PAPER, partial(dit, width=768, depth=12, heads=12, patch=4)),
    Entry("dit-l-2", 2022, _WHAT.format(2), _PAPER, partial(dit, width=1024, depth=24, heads=16, patch=2)),
    Entry("dit-xl-2", 2022, _WHAT.format(2), _PAPER, partial(dit, width=1152, depth=28, heads=16, patch=2)),
)  # fmt: skip
