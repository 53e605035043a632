"""A projector that condenses squares of patches to the features of one (Mistral Small 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.of_squares import ProjectorOfSquares
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.images.condensed_module import CondensedModule


class CondensedProjector(ProjectorOfSquares):
    """y = inner(W [norm(x_1) ... norm(x_n)]), W (I, n I): the n = side^2 patches of a square become one of I features.

    The patch merger of Mistral Small 3.1 (2025); transformers' `Mistral3PatchMerger`.
    """

    kind: Literal["condensed"] = "condensed"
    norm: Norm | None = None

    def sketch(self, width: int) -> Sketch:
        inner = self.inner.sketch(width)
        norm = [] if self.norm is None else [type(self.norm).__name__]
        return Sketch(inner.title, (*norm, f"{self.side} × {self.side} patches to one", *inner.facts))

    def build(self, inputs: int, width: int) -> CondensedModule:
        from anyformer.parts.images.condensed_module import CondensedModule

        return CondensedModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        squares = positions // self.side**2
        norm = total({"norm": self.norm.cost(inputs, images * positions)}) if self.norm else Tally()
        merge = matrix("merge", self.side**2 * inputs, inputs, images * squares, role="replicate")
        return norm + merge + total({"inner": self.inner.cost(inputs, width, images, squares)})
