"""What one process of several holds of a training step, given what one process alone would."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from anyformer.costs.flight import STRAIGHT, Flight
from anyformer.costs.gathered import NOTHING, GatheredWeights
from anyformer.costs.holding import Holding
from anyformer.costs.moments import PeakMemory


@dataclass(frozen=True)
class Member:
    """Shares of what one process alone would hold, and what is gathered on top.

    `kept`: of weights and the optimiser's state, and at the update of gradients; `learnt`: of gradients before; `computed`: of
    weights that it computes with, of which copies in another type are made; `saved`: of the tensors that the layers of a
    micro-batch save; `layer`: of its own, those of one layer; `logits`, `of_logits`: of what the loss saves, and of the
    gradient of logits; `flight`: micro-batches on their way through a pipeline; `twice`: bytes of gradients at the update
    beyond one per weight.
    """

    kept: float = 1.0
    learnt: float = 1.0
    computed: float = 1.0
    saved: float = 1.0
    layer: float = 0.0
    logits: float = 1.0
    of_logits: float = 1.0
    flight: Flight = STRAIGHT
    twice: int = 0
    gathered: GatheredWeights = NOTHING

    def most(self, peak: PeakMemory, accumulation: int) -> int:
        """Bytes of the process at its peak."""
        gradients = peak.at_loss.gradients or peak.at_update.gradients - self.twice
        assert gradients >= 0, "gradients of a tied table are counted where it learns"
        waits = self.flight.waits(accumulation)
        ends = self._kept(peak.at_update, 0) + gradients * self.kept
        moments = [ends + self.gathered.end, ends + peak.at_update.temporaries]
        cases = self.flight.moments(accumulation, gradients)
        return math.ceil(max(moments + [size for case in cases for size in self._in_passes(peak, *case, waits)]))

    def _in_passes(self, peak: PeakMemory, pieces: float, gradients: float, waits: float) -> Iterator[float]:
        """Bytes at moments within the forward and the backward pass of a micro-batch, each by itself: the largest of one
        process need not be that of one among several. `waits`: see `Flight`."""
        loss, gathered = peak.at_loss, self.gathered
        own = loss.activations * self.saved

        def at(moment: Holding) -> float:
            saved = moment.activations * self.saved + own * (pieces - 1)
            return self._kept(moment, gradients) + saved + self._made(moment, loss)

        # While the gradients of one layer are sent, what it saved is gone.
        spared = min(gathered.layer, own * self.layer)
        gone = (loss.activations - peak.in_layers.activations) * self.saved
        yield at(replace(loss, activations=0, temporaries=0)) + gathered.start
        yield at(peak.in_forward) + gathered.loss
        yield at(replace(loss, temporaries=0)) + gathered.backward - spared
        yield at(loss) + loss.logits * self.logits + gathered.loss
        yield at(peak.in_backward) + gathered.loss + gathered.head
        yield at(peak.in_layers) + gathered.backward - max(0, spared - gone)
        if waits:
            yield at(replace(peak.in_layers, activations=loss.activations)) + gathered.loss + loss.activations * waits

    def _kept(self, at: Holding, gradients: float) -> float:
        """Its part of weights, at most so many bytes of gradients, the optimiser's state, and copies of the weights it computes
        with."""
        stays = (at.weights + at.optimiser) * self.kept + min(at.gradients, gradients) * self.learnt
        return stays + at.copies * self.computed

    def _made(self, at: Holding, loss: Holding) -> float:
        """Its part of the tensors of single operations, among them the gradient of logits."""
        of_logits = min(at.temporaries, loss.logits)
        return of_logits * self.of_logits + (at.temporaries - of_logits) * self.saved
