"""Bytes that training keeps per parameter between steps; `peak.py` adds all else that a step holds."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.precision import Precision


@dataclass(frozen=True)
class States:
    """Bytes per parameter: of its weight, its gradient, and the optimiser's state.

    Adam's two moments in fp32 are 8 (Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054, section 3.1); an fp32 master copy of
    narrower weights is part of the state. Copies of wider weights in the type of products come on top (`Holding.copies`).
    """

    weights: int = 4
    gradients: int = 4
    optimiser: int = 8

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser

    @property
    def updated(self) -> int:
        """Bytes that an update reads and writes: all are read, and all but the gradient are written."""
        return self.total + self.weights + self.optimiser


ADAM = States()
"""All in fp32, as in every precision but one with weights in bf16: products read copies in their own format."""
MASTER = 4
"""Bytes of the copy of a weight in fp32 that an optimiser keeps."""


def states_of(precision: Precision) -> States:
    """Bytes of a weight, its gradient and Adam's state, with a copy in fp32 where the precision keeps one."""
    weight = precision.weight_bytes
    return States(weight, weight, ADAM.optimiser + MASTER * precision.masters)
