"""Draws the coordinate checks of docs/compare.md: what changes while models of several widths and depths learn.

python docs/make_mup.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Initialisation,
    MaximalUpdate,
    Normal,
    Parametrisation,
    RMSNorm,
    Rotary,
    UnitScaledUpdate,
    pre_norm,
)
from anyformer.tuning import AdamW

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "model"))
from coordinates import LOGITS, coordinate_check, depth_check, draw_coordinates

PICTURES = Path(__file__).parent / "pictures"
WIDTHS, DEPTHS = (32, 64, 128, 256, 512), (2, 4, 8, 16, 32)
WIDTH, DEPTH = 32, 2
SEEDS = (0, 1, 2)
RATE, UNIT_RATE = 5e-3, 0.2


def model(mup: Parametrisation | None, deviation: float = 0.1) -> Architecture:
    """A decoder of two layers whose logits are 0 at first."""
    block = pre_norm(RMSNorm(), Attention(heads=4, place=Rotary()), FeedForward(width=2 * WIDTH, activation="silu", gated=True))
    starts = Initialisation(matrix=Normal(std=deviation), embedding=Normal(std=1.0), head=Normal(std=0.0), mup=mup)
    return decoder_only(Embedding(vocab=64), WIDTH, [block] * DEPTH, final_norm=RMSNorm(), initialisation=starts)


def main() -> None:
    usual, unit = model(None), model(UnitScaledUpdate(), deviation=1.0)
    of_widths = {"usual": (usual, RATE), "muP": (model(MaximalUpdate(base_width=WIDTH)), RATE), "u-muP": (unit, UNIT_RATE)}
    by_width = {
        title: coordinate_check(each, AdamW(learning_rate=rate), WIDTHS, seeds=SEEDS)
        for title, (each, rate) in of_widths.items()
    }
    draw_coordinates(by_width, PICTURES / "mup.svg", ("layer 0", "layer 1", LOGITS))
    deep = MaximalUpdate(base_width=WIDTH, base_depth=DEPTH)
    of_depths = {
        "usual": (usual, RATE),
        "depth-muP": (model(deep.but(depth_exponent=0.5)), RATE),
        "CompleteP": (model(deep), RATE),
        "u-muP": (unit, UNIT_RATE),
    }
    by_depth = {
        title: depth_check(each, AdamW(learning_rate=rate), DEPTHS, seeds=SEEDS) for title, (each, rate) in of_depths.items()
    }
    draw_coordinates(by_depth, PICTURES / "mup-depth.svg", ("middle layer", "last layer", LOGITS), "layers")


if __name__ == "__main__":
    main()
