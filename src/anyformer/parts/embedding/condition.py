"""The condition of a stack: one vector per row, of a time of diffusion and of a class, by which layers are modulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from anyformer.describe import Count, Moderate, Positive
from anyformer.operations import Tally, Weight, matrix, total
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Drawn, Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.embedding.condition_module import ConditionModule

CONDITION = "condition"
"""Name in `Context.shared` of the stack's condition, (B, D)."""


class Condition(Drawn):
    """c = W_2 silu(W_1 s + b_1) + b_2 + C[class], s the cosines, then the sines, of time_scale * t * theta^(-2i / n).

    n frequencies, i < n / 2; t (B,) is the time of a row, from 0 (clean) to 1 (noise alone); C (classes + 1, D), its last row
    the null class, of a row whose class is unknown (Peebles & Xie 2022, DiT, arXiv 2212.09748, section 3.2; its frequency
    embedding is our s).
    Both are data of a call (`Transformer.features`). Parts with a `Modulation` read c.
    """

    frequencies: Annotated[int, Field(ge=2, multiple_of=2)] = 256
    """Features of s, an even number: cosines and sines."""
    theta: Moderate = 10_000.0
    """Ratio of the fastest wave to the slowest."""
    time_scale: Positive = 1000.0
    """Factor of t: the number of steps that a published model counts."""
    classes: Count | None = None
    """Classes of rows; None: the condition is the time alone."""

    def sketch(self, width: int) -> Sketch:
        classes = () if self.classes is None else (f"+ one of {self.classes:,} classes, or the null class",)
        return Sketch("Condition", (f"time: {self.frequencies} waves → {number(width)}", *classes))

    def build(self, width: int) -> ConditionModule:
        """The module: times and classes (B,) -> (B, D)."""
        from anyformer.parts.embedding.condition_module import ConditionModule

        return ConditionModule(self, width)

    def cost(self, width: int, batch: int) -> Tally:
        """Its weights, and its work on B rows."""
        tally = (
            matrix("input", self.frequencies, width, batch, role="replicate", bias=True, constant=True)
            + matrix("output", width, width, batch, role="replicate", bias=True)
            + total({"activation": ACTIVATIONS["silu"].cost(width, batch)})
        )
        if self.classes is not None:
            tally += Tally({"classes": Weight((self.classes + 1, width), "replicate", "embedding", linear=False)})
        return tally
