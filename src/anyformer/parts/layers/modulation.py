"""Modulation: shift, scale and gate of a branch by the stack's condition (adaptive layer norm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.operations import Tally, matrix, total
from anyformer.operations.elementwise import gated, modulated
from anyformer.parts.call.shared import Read
from anyformer.parts.embedding.condition import CONDITION
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Drawn, Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.layers.modulation_module import ModulationModule

READS_CONDITION = Read(CONDITION)
"""The stack's condition, which a modulation reads."""


class Modulation(Drawn):
    """y = gate * f(norm(x) * (1 + scale) + shift), with [shift, scale, gate] = W silu(c) + b of the stack's condition c.

    W (3 D, D) and b start at 0, so that a branch adds nothing at first (adaLN-Zero: Peebles & Xie 2022, DiT, arXiv 2212.09748,
    section 3.2). The paper has one W of six parts for both branches of a layer, ours are its halves; its gamma, beta and alpha
    are our scale, shift and gate.
    """

    gate: bool = True
    """Multiply the branch's output by a gate; else W is (2 D, D) (adaLN; the norm before DiT's head)."""

    @property
    def parts(self) -> int:
        """Vectors that W gives: 2, or 3 with a gate."""
        return 2 + self.gate

    def sketch(self, width: int) -> Sketch:
        return Sketch("Modulation", (f"condition: {number(width)} → {self.parts} × {number(width)}",))

    def build(self, width: int) -> ModulationModule:
        """The module: the condition (B, D) -> its parts, (B, 1, D) each."""
        from anyformer.parts.layers.modulation_module import ModulationModule

        return ModulationModule(self, width)

    def cost(self, width: int, batch: int, rows: int) -> Tally:
        """Its weights, and its work on the conditions of B rows and on so many positions in all."""
        work = {"activation": ACTIVATIONS["silu"].cost(width, batch), "applied": Tally(own_work={"": modulated(rows * width)})}
        if self.gate:
            work["gate"] = Tally(own_work={"": gated(rows * width)})
        projection = matrix("projection", width, self.parts * width, batch, role="replicate", bias=True, fill="zeros")
        return projection + total(work)
