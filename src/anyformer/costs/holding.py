"""What a device holds at one moment of training, by what it is for."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Holding:
    """Bytes by purpose: the one way in which sheets and plans say what takes the memory.

    `copies`: weights in the type of products; `activations`: kept for the backward pass but for the loss; `logits`: kept by
    logits and loss; `temporaries`: what single operations need for a moment, gradients of activations most of all.
    """

    weights: int = 0
    gradients: int = 0
    optimiser: int = 0
    copies: int = 0
    activations: int = 0
    logits: int = 0
    temporaries: int = 0

    @property
    def total(self) -> int:
        parts = self.weights + self.gradients + self.optimiser + self.copies
        return parts + self.activations + self.logits + self.temporaries

    @property
    def named(self) -> dict[str, int]:
        """What there is of it, in the words of a page."""
        return {TITLES[each.name]: size for each in fields(self) if (size := getattr(self, each.name))}

    def __add__(self, other: Holding) -> Holding:
        return Holding(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


TITLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimiser": "optimiser state",
    "copies": "copies of weights",
    "activations": "activations",
    "logits": "logits and loss",
    "temporaries": "temporaries",
}
