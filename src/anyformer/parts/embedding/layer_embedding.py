"""Per-layer token embeddings: every layer looks its tokens up again in a small table of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor, nn

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.sketch import Cell, SideInput, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan


class LayerEmbedding(Sublayer):
    """(act(x W_in) * scale * table[token]) W_out: W_in (D, P), table (V, P), W_out (P, D) (Gemma 3n's per-layer embeddings).

    Large tables cost memory and no products. Gemma 3n adds a projection of the input embedding to the table's row; here the
    row stands alone.
    """

    kind: Literal["layer_embedding"] = "layer_embedding"
    vocab: Count
    """V."""
    width: Count
    """P, features of a row."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu_tanh"
    scale: Positive = 1.0

    def sketch(self, width: int) -> Sketch:
        activation = Cell(activation_name(self.activation, gated=False), "pointwise")
        row = SideInput(Cell(f"the token's row of {self.vocab:,} × {self.width}", "memory"))
        inner = fan(chain(Cell(f"in {self.width}"), activation), row, join="×")
        return Sketch("Embedding of this layer", flow=chain(inner, Cell(f"out {number(width)}")))

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,)

    def gathers(self, width: int) -> int | None:
        return 0

    def build(self, width: int, plan: Plan, name: str) -> LayerEmbeddingModule:
        return LayerEmbeddingModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        return (
            matrix("input", width, self.width, rows, role="column")
            + Tally(
                {"table.weight": Weight((self.vocab, self.width), "column", "embedding", axes=((("vocab", self.vocab),), ()))}
            )
            + matrix("output", self.width, width, rows, role="row", fill="residual")
            + total({"activation": ACTIVATIONS[self.activation].cost(self.width, rows, gated=True)})
        )


class LayerEmbeddingModule(nn.Module):
    """(B, T, D) and the context's tokens (B, T) -> (B, T, D)."""

    def __init__(self, part: LayerEmbedding, width: int) -> None:
        super().__init__()
        self.scale = part.scale
        self.input = nn.Linear(width, part.width, bias=False)
        self.activation = ACTIVATIONS[part.activation].build(part.width)
        self.table = nn.Embedding(part.vocab, part.width)
        self.output = nn.Linear(part.width, width, bias=False)

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        assert context.tokens is not None, "a stack whose layers read tokens gets them"
        rows_BTP = self.table(context.tokens).to(x_BTD.dtype) * self.scale
        return self.output(self.activation(self.input(x_BTD)) * rows_BTP)  # type: ignore[no-any-return]
