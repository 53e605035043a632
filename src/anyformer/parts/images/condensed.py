"""A projector that condenses squares of patches to the features of one (Mistral Small 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.images.condensed_module import CondensedModule


class CondensedProjector(Projector):
    """y = inner(W [norm(x_1) ... norm(x_n)]), W (I, n I): the n = side^2 patches of a square become one of I features.

    The patch merger of Mistral Small 3.1 (2025); transformers' `Mistral3PatchMerger`.
    """

    kind: Literal["condensed"] = "condensed"
    side: Annotated[int, Field(ge=1)] = 2
    """Patches along the side of a square (`spatial_merge_size`)."""
    norm: Norm | None = None
    inner: Projector
    """What reads the condensed features."""

    @model_validator(mode="after")
    def _once(self) -> CondensedProjector:
        if self.inner.square > 1:
            raise ValueError(f"inner: merges squares of {self.inner.square} patches itself: merge them once, by a larger side")
        return self

    @property
    def square(self) -> int:
        return self.side

    def sketch(self, width: int) -> Sketch:
        inner = self.inner.sketch(width)
        norm = [] if self.norm is None else [type(self.norm).__name__]
        return Sketch(inner.title, (*norm, f"{self.side} × {self.side} patches to one", *inner.facts))

    def tokens(self, positions: int) -> int:
        if positions % self.side**2:
            raise ValueError(
                f"an image has {positions} positions, and squares take {self.side} x {self.side}: choose another side"
            )
        return self.inner.tokens(positions // self.side**2)

    def build(self, inputs: int, width: int) -> CondensedModule:
        from anyformer.parts.images.condensed_module import CondensedModule

        return CondensedModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        squares = positions // self.side**2
        norm = total({"norm": self.norm.cost(inputs, images * positions)}) if self.norm else Tally()
        merge = matrix("merge", self.side**2 * inputs, inputs, images * squares, role="replicate")
        return norm + merge + total({"inner": self.inner.cost(inputs, width, images, squares)})
