"""Inputs of each layer: features of the token and of its embedding that every layer has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total
from anyformer.parts.call.shared import Read
from anyformer.parts.derived import WidthFactor
from anyformer.parts.embedding.layer_embedding import gated_rows_cost, gated_rows_seen, gated_rows_sketch
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Cell, Drawn, SideInput, Sketch, number
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.embedding.layer_inputs_module import LayerInputModule, LayerInputsModule


LAYER_INPUTS = "layer_inputs"
"""Name in `Context.shared` of the stack's inputs of its layers, (B, T, L, P)."""


class LayerInputs(Drawn):
    """u_l = factor * (norm(projection_scale * x W_l) + table_scale * table[token]_l), P features for each of L layers.

    x (B, T, D) is what enters the layers, W_l (D, P), table (V, L * P); one norm for all layers (Gemma 3n and 4 E2B and E4B,
    their per-layer embeddings). A layer reads its own features by a `LayerInput`. Without `vocab` there is no table, and no
    token is looked up (EmbeddingGemma 2).
    """

    width: Count
    """P."""
    vocab: Count | None = None
    """V, rows of the table; None: the features come from the embedding alone."""
    table_scale: Positive = 1.0
    """Factor of the table's rows (Gemma: sqrt(P))."""
    beyond: Annotated[int, Field(ge=0)] | None = None
    """The row of tokens beyond the table (Gemma 3n: 0); None: they are refused."""
    projection_scale: WidthFactor = 1.0
    """Factor of x W_l before the norm (Gemma: `inverse_sqrt_width`)."""
    norm: Norm | None = None
    factor: Positive = 1.0
    """Factor of the sum (Gemma: 1 / sqrt(2))."""

    @model_validator(mode="after")
    def _has_the_row(self) -> LayerInputs:
        if self.beyond is not None and not self.beyond < (self.vocab or 0):
            raise ValueError(f"beyond = {self.beyond} is a row of the table, which has {self.vocab or 0}")
        return self

    def sketch(self, width: int) -> Sketch:
        table = () if self.vocab is None else (f"plus a row of {self.vocab:,} × L × {self.width} per token",)
        return Sketch("Inputs of each layer", (f"{number(width)} → L × {self.width}", *table))

    def build(self, width: int, depth: int) -> LayerInputsModule:
        from anyformer.parts.embedding.layer_inputs_module import LayerInputsModule

        return LayerInputsModule(self, width, depth)

    def cost(self, width: int, depth: int, rows: int) -> Tally:
        P, V = self.width, self.vocab
        tally = matrix("projection", width, depth * P, rows, role="replicate")
        if self.norm is not None:
            tally += total({"norm": self.norm.cost(P, rows * depth)})
        if V is not None:
            tally += Tally(
                {"table": Weight((V, depth * P), "replicate", "embedding", linear=False, axes=((("vocab", V),), ()))}
            )
        return tally


class LayerInput(Sublayer):
    """(act(x W_in) * u_l) W_out: W_in (D, P), W_out (P, D), and u_l this layer's features of the stack's `layer_inputs`."""

    kind: Literal["layer_input"] = "layer_input"
    width: Count
    """P."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu_tanh"
    layer: Annotated[int, Field(ge=0)] | None = None
    """The number of the layer whose features are read; None: its own, or where layers share weights that of their first."""

    def sketch(self, width: int) -> Sketch:
        row = SideInput(Cell(f"{self.width} features of this layer", "memory"))
        return gated_rows_sketch("Input of this layer", width, self.width, self.activation, row)

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(LAYER_INPUTS, size=self.width),)

    def watchable(self, width: int) -> Watchables:
        return gated_rows_seen(self.width)

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(layer=layer) if self.layer is None else self

    def build(self, width: int, plan: Plan, name: str) -> LayerInputModule:
        from anyformer.parts.embedding.layer_inputs_module import LayerInputModule

        return LayerInputModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return gated_rows_cost(width, self.width, self.activation, shape.rows)
