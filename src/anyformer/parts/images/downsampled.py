"""A projector that downsamples squares of patches by a matrix, before a gated network (GLM-4.1V)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.downsampled_module import DownsampledModule


class DownsampledProjector(Projector):
    """y = W_d (act(W_g h) * W_u h), h = gelu(norm(W_p (W_s [x_1 ... x_n] + b))): the n = side^2 patches of a square.

    W_s (D, n I), W_p (D, D), W_g and W_u (F, D), W_d (D, F). GLM-V Team 2025, "GLM-4.1V-Thinking" (arXiv 2507.01006), section
    2.
    """

    kind: Literal["downsampled"] = "downsampled"
    side: Annotated[int, Field(ge=1)] = 2
    """Patches along the side of a square (`spatial_merge_size`)."""
    hidden: Count
    """F."""
    norm: Norm | None = None
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"

    @property
    def square(self) -> int:
        return self.side

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        sizes = f"→ {number(width)} → {number(self.hidden)} → {number(width)}"
        return Sketch("Gated projector", (f"{self.side} × {self.side} patches side by side", *norm, sizes))

    def tokens(self, positions: int) -> int:
        if positions % self.side**2:
            raise ValueError(
                f"an image has {positions} positions, and squares take {self.side} x {self.side}: choose another side"
            )
        return positions // self.side**2

    def build(self, inputs: int, width: int) -> DownsampledModule:
        from anyformer.parts.images.downsampled_module import DownsampledModule

        return DownsampledModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * self.tokens(positions)
        tally = matrix("squares", self.side**2 * inputs, width, rows, role="replicate", bias=True)
        tally += matrix("projection", width, width, rows, role="replicate")
        for name in ("gate", "up"):
            tally += matrix(name, width, self.hidden, rows, role="column")
        tally += matrix("down", self.hidden, width, rows, role="row")
        tally += total({"norm": self.norm.cost(width, rows)}) if self.norm else Tally()
        tally += total({"first_activation": ACTIVATIONS["gelu"].cost(width, rows)})
        return tally + total({"activation": ACTIVATIONS[self.activation].cost(self.hidden, rows, gated=True)})
