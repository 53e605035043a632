"""Micro-batches on their way through a pipeline, of which a process holds saved tensors and gradients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flight:
    """What a process of a pipeline holds at once: `pieces`, of micro-batches that are in `chunks` each, among so many `stages`.

    `outside`: the share of gradients that are of weights outside the layers. `halves`: micro-batches between the two halves of
    their backward passes, where these are apart; `waiting`: gradients of outputs that are held of each until the second one, as
    a share of the tensors that the layers save.
    """

    pieces: int = 1
    chunks: int = 1
    stages: int = 1
    outside: float = 0.0
    halves: int = 0
    waiting: float = 0.0

    def moments(self, accumulation: int, gradients: int) -> list[tuple[float, float]]:
        """Micro-batches that are held, beside bytes of gradients: before the first backward pass, and when that of one more
        chunk has been. Passes go through a chunk with as many micro-batches as there are stages (interleaved 1F1B)."""
        every = accumulation * self.chunks
        found = [(min(self.pieces, every), 0.0)]
        for chunk in range(self.chunks):
            held = max(1, min(self.pieces, every - chunk * self.stages - 1))
            found.append((held, gradients * (self.outside + (1 - self.outside) * (chunk + 1) / self.chunks)))
        return [(held / self.chunks, size) for held, size in found]

    def waits(self, accumulation: int) -> float:
        """The gradients that wait, after the first half of a backward pass."""
        return min(self.halves, accumulation) * self.waiting


STRAIGHT = Flight()
"""Of a process that computes one micro-batch after another."""
