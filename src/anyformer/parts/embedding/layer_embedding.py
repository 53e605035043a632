"""Per-layer token embeddings: every layer looks its tokens up again in a small table of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.sketch import Cell, SideInput, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.embedding.layer_embedding_module import LayerEmbeddingModule


class LayerEmbedding(Sublayer):
    """(act(x W_in) * scale * table[token]) W_out: W_in (D, P), table (V, P), W_out (P, D).

    Large tables cost memory and no products. Gemma 3n adds a projection of the input embedding to the table's row
    (`LayerInputs`); here the row stands alone.
    """

    kind: Literal["layer_embedding"] = "layer_embedding"
    vocab: Count
    """V."""
    width: Count
    """P, features of a row."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu_tanh"
    scale: Positive = 1.0

    def sketch(self, width: int) -> Sketch:
        row = SideInput(Cell(f"the token's row of {self.vocab:,} × {self.width}", "memory"))
        return gated_rows_sketch("Embedding of this layer", width, self.width, self.activation, row)

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,)

    def gathers(self, width: int) -> int | None:
        return 0

    def build(self, width: int, plan: Plan, name: str) -> LayerEmbeddingModule:
        from anyformer.parts.embedding.layer_embedding_module import LayerEmbeddingModule

        return LayerEmbeddingModule(self, width)

    def watchable(self, width: int) -> Watchables:
        return gated_rows_seen(self.width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        table = Weight((self.vocab, self.width), "column", "embedding", linear=False, axes=((("vocab", self.vocab),), ()))
        return gated_rows_cost(width, self.width, self.activation, shape.rows) + Tally({"table.weight": table})


def gated_rows_seen(narrow: int) -> Watchables:
    """The values that are seen of a `GatedRowsModule`."""
    rows = value("BTP", "the token's row of this layer", P=narrow)
    return {
        "rows": rows,
        "gate": replace(rows, about="the gate before its activation"),
        "hidden": replace(rows, about="what the output projection reads"),
    }


def gated_rows_cost(width: int, narrow: int, activation: str, rows: int) -> Tally:
    """The tally of a `GatedRowsModule`."""
    return (
        matrix("input", width, narrow, rows, role="column")
        + matrix("output", narrow, width, rows, role="row", fill="residual")
        + total({"activation": ACTIVATIONS[activation].cost(narrow, rows, gated=True)})
    )


def gated_rows_sketch(title: str, width: int, narrow: int, activation: str, row: SideInput) -> Sketch:
    """The drawing of a `GatedRowsModule`."""
    gate = chain(Cell(f"in {narrow}"), Cell(activation_name(activation, gated=False), "pointwise"))
    return Sketch(title, flow=chain(fan(gate, row, join="×"), Cell(f"out {number(width)}")))
