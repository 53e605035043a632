"""A projector of two layers, position by position (LLaVA 1.5)."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor, nn

from anyformer.describe import Choice
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number


class TwoLayerProjector(Projector):
    """y = W_2 act(W_1 x + b_1) + b_2, W_1 (D, I), W_2 (D, D): a token for each position of an image.

    Liu et al. 2023, "Improved Baselines with Visual Instruction Tuning" (LLaVA 1.5, arXiv 2310.03744), section 3.3.
    """

    kind: Literal["two_layer"] = "two_layer"
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        return Sketch("Projector of two layers", (f"→ {number(width)} → {number(width)}", ACTIVATIONS[self.activation].title))

    def tokens(self, positions: int) -> int:
        return positions

    def build(self, inputs: int, width: int) -> TwoLayerModule:
        return TwoLayerModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * positions
        return (
            matrix("first", inputs, width, rows, role="column", bias=self.bias)
            + matrix("second", width, width, rows, role="row", bias=self.bias)
            + total({"activation": ACTIVATIONS[self.activation].cost(width, rows)})
        )


class TwoLayerModule(nn.Module):
    """(n, S, I) -> (n, S, D)."""

    def __init__(self, part: TwoLayerProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width, bias=part.bias)
        self.activation = ACTIVATIONS[part.activation].build(width)
        self.second = nn.Linear(width, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.second(self.activation(self.first(x_nSI)))  # type: ignore[no-any-return]
