"""A projector of a gated network, position by position (Aya Vision, Command A Vision)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.gated_projector_module import GatedProjectorModule


class GatedProjector(Projector):
    """y = W_d (act(W_g n + b_g) * (W_u n + b_u)) + b_d, n = norm(x), W_g and W_u (F, I), W_d (D, F): a token per position.

    Dash et al. 2025, "Aya Vision" (arXiv 2505.08751), section 3: SwiGLU behind squares of patches.
    """

    kind: Literal["gated"] = "gated"
    hidden: Count
    """F."""
    norm: Norm | None = None
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        return Sketch(
            "Gated projector", (*norm, f"→ {number(self.hidden)} → {number(width)}", ACTIVATIONS[self.activation].title)
        )

    def tokens(self, positions: int) -> int:
        return positions

    def build(self, inputs: int, width: int) -> GatedProjectorModule:
        from anyformer.parts.images.gated_projector_module import GatedProjectorModule

        return GatedProjectorModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * positions
        tally = total({"norm": self.norm.cost(inputs, rows)}) if self.norm else Tally()
        for name in ("gate", "up"):
            tally += matrix(name, inputs, self.hidden, rows, role="column", bias=self.bias)
        tally += matrix("down", self.hidden, width, rows, role="row", bias=self.bias)
        return tally + total({"activation": ACTIVATIONS[self.activation].cost(self.hidden, rows, gated=True)})
