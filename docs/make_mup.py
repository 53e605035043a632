"""Draws the coordinate check of docs/compare.md: what changes while models of several widths learn, with muP and without.

python docs/make_mup.py
"""

from __future__ import annotations

from pathlib import Path

from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Initialisation, MaximalUpdate, Normal, RMSNorm, Rotary, pre_norm
from anyformer.studies.coordinates import LOGITS, coordinate_check, draw_coordinates
from anyformer.tuning import AdamW

PICTURE = Path(__file__).parent / "pictures" / "mup.svg"
WIDTHS = (32, 64, 128, 256, 512)
BASE = 32


def model(mup: MaximalUpdate | None) -> Architecture:
    """A decoder of two layers whose logits are 0 at first."""
    block = pre_norm(RMSNorm(), Attention(heads=4, rotary=Rotary()), FeedForward(width=2 * BASE, activation="silu", gated=True))
    starts = Initialisation(matrix=Normal(std=0.1), embedding=Normal(std=1.0), head=Normal(std=0.0), mup=mup)
    return decoder_only(Embedding(vocab=64), BASE, [block] * 2, final_norm=RMSNorm(), initialisation=starts)


def main() -> None:
    optimiser = AdamW(learning_rate=5e-3)
    checks = {
        title: coordinate_check(model(mup), optimiser, WIDTHS, seeds=(0, 1, 2))
        for title, mup in (("usual", None), ("muP", MaximalUpdate(base_width=BASE)))
    }
    draw_coordinates(checks, PICTURE, ("layer 1", "layer 2", LOGITS))


if __name__ == "__main__":
    main()
