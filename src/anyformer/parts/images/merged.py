"""A projector that merges squares of patches (Qwen2-VL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Choice
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.merged_module import MergedModule


class MergedProjector(Projector):
    """y = W_2 act(W_1 [norm(x_1) ... norm(x_n)] + b_1) + b_2: one token for a square of n = side^2 patches, side by side.

    W_1 (n I, n I), W_2 (D, n I). Wang et al. 2024, "Qwen2-VL" (arXiv 2409.12191), section 2.1.
    """

    kind: Literal["merged"] = "merged"
    side: Annotated[int, Field(ge=1)] = 2
    """Patches along the side of a square (`spatial_merge_size`)."""
    norm: Norm | None = None
    norm_of: Literal["patch", "square"] = "patch"
    """What the norm reads: the I features of a patch, or the n I of a square (the deep-stack of Qwen3-VL)."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    bias: bool = True

    @property
    def square(self) -> int:
        return self.side

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        merged = f"{self.side} × {self.side} patches side by side"
        return Sketch("Projector", (*norm, merged, f"→ {number(width)}", ACTIVATIONS[self.activation].title))

    def tokens(self, positions: int) -> int:
        if positions % self.side**2:
            raise ValueError(f"an image has {positions} positions, which are no squares of {self.side} x {self.side}")
        return positions // self.side**2

    def build(self, inputs: int, width: int) -> MergedModule:
        from anyformer.parts.images.merged_module import MergedModule

        return MergedModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows, wide = images * self.tokens(positions), self.side**2 * inputs
        read = (inputs, images * positions) if self.norm_of == "patch" else (wide, rows)
        norm = total({"norm": self.norm.cost(*read)}) if self.norm else Tally()
        return (
            norm
            + matrix("first", wide, wide, rows, role="column", bias=self.bias)
            + matrix("second", wide, width, rows, role="row", bias=self.bias)
            + total({"activation": ACTIVATIONS[self.activation].cost(wide, rows)})
        )
