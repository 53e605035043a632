"""Memory of a device at one moment of training, by purpose."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Holding:
    """Bytes by purpose, as sheets and plans give them.

    `copies`: weights in the type of products; `activations`: tensors saved for the backward pass, but for the loss; `logits`:
    tensors saved by logits and loss; `temporaries`: tensors of single operations, most of all gradients of activations.
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
        """Bytes of the purposes that take any, by their titles on a page."""
        return {TITLES[field.name]: size for field in fields(self) if (size := getattr(self, field.name))}

    def __add__(self, other: Holding) -> Holding:
        return Holding(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


TITLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimiser": "optimiser state",
    "copies": "copies of weights",
    "activations": "activations",
    "logits": "logits and loss",
    "temporaries": "temporaries",
}
