"""A projector that averages neighbouring positions (Qwen2-Audio, Audio Flamingo 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.averaged_module import AveragedModule


class AveragedProjector(Projector):
    """y = W norm(mean of `count` positions one after the other) + b, W (D, I); with an `activation` y = W_2 act(W ... + b) + c.

    Positions of a rest give no token. Chu et al. 2023, "Qwen-Audio" (arXiv 2311.07919), section 2.1: 2 positions, 40 ms.
    """

    kind: Literal["averaged"] = "averaged"
    count: Count = 2
    norm: Norm | None = None
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    """Of a first layer, behind which a second one follows; None: one layer."""
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        layers = [] if self.activation is None else [ACTIVATIONS[self.activation].title, f"→ {number(width)}"]
        return Sketch("Projector", (f"means of {self.count} positions", *norm, f"→ {number(width)}", *layers))

    def tokens(self, positions: int) -> int:
        return positions // self.count

    def build(self, inputs: int, width: int) -> AveragedModule:
        from anyformer.parts.images.averaged_module import AveragedModule

        return AveragedModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * self.tokens(positions)
        made = total({"norm": self.norm.cost(inputs, rows)}) if self.norm else Tally()
        made += matrix("first", inputs, width, rows, role="column", bias=self.bias)
        if self.activation is None:
            return made
        made += matrix("second", width, width, rows, role="row", bias=self.bias)
        return made + total({"activation": ACTIVATIONS[self.activation].cost(width, rows)})
