"""The moments of a training step at which its memory can be at its peak."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from anyformer.costs.holding import Holding

Moment = Literal["forward", "loss", "backward", "update"]


@dataclass(frozen=True)
class PeakMemory:
    """Memory at the four moments that can be the peak of a step, `persistent` bytes, which stay between steps, in each.

    `forward`: within layers, whose dropout draws integers of 64 bits, and within the loss. `loss`: every saved tensor.
    `backward`: within layers, norms and head, and of these `in_layers` alone. `update`: every gradient, no saved tensor.
    """

    persistent: int
    at_loss: Holding
    in_backward: Holding
    at_update: Holding
    in_forward: Holding
    in_layers: Holding

    @property
    def forward(self) -> int:
        return self.in_forward.total

    @property
    def loss(self) -> int:
        return self.at_loss.total

    @property
    def backward(self) -> int:
        return self.in_backward.total

    @property
    def update(self) -> int:
        return self.at_update.total

    def after(self, first: PeakMemory) -> PeakMemory:
        """The peak of a step in which two models learn, `first` the one whose forward pass comes first.

        At the loss both hold what they saved. The backward pass goes through this one, while the first holds all that it saved,
        and then through the first one, beside all gradients of this one.
        """
        saved = replace(first.at_loss, temporaries=0)
        beside = self.at_update + first.at_loss
        backward = self.in_backward + saved, beside, self.at_update + first.in_backward
        layers = self.in_layers + saved, beside, self.at_update + first.in_layers
        return PeakMemory(
            persistent=first.persistent + self.persistent,
            at_loss=saved + self.at_loss,
            in_backward=max(backward, key=lambda holding: holding.total),
            at_update=first.at_update + self.at_update,
            in_forward=max(
                first.in_forward + Holding(weights=self.persistent), saved + self.in_forward, key=lambda holding: holding.total
            ),
            in_layers=max(layers, key=lambda holding: holding.total),
        )

    def beside(self, still: int) -> PeakMemory:
        """The peak of a step beside so many bytes of weights that do not learn."""
        more = Holding(weights=still)
        every = self.at_loss, self.in_backward, self.at_update, self.in_forward, self.in_layers
        moments = (moment + more for moment in every)
        return PeakMemory(self.persistent + still, *moments)

    @property
    def holding(self) -> Holding:
        """Bytes by purpose at the peak."""
        return max(self.at_loss, self.in_backward, self.at_update, self.in_forward, key=lambda holding: holding.total)

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return self.holding.total

    @property
    def at(self) -> Moment:
        """The moment of the peak."""
        moments: dict[Moment, int] = {
            "loss": self.loss,
            "backward": self.backward,
            "update": self.update,
            "forward": self.forward,
        }
        return max(moments, key=lambda name: moments[name])
