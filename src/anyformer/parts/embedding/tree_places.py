"""Tokens that carry their place in a tree of tags: the way from the root of a page of HTML to their word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.operations import Tally, Weight, matrix, total
from anyformer.parts.embedding.embedding import Embedding
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.embedding.tree_places_module import TreePlacesModule

Index = Annotated[int, Field(ge=0)]


class TreePlacedEmbedding(Embedding):
    """x = scale * table[token] + types[type] + W_2 relu(W_1 e + b_1) + b_2, e: (B, T, n P) the n steps of a token's path.

    e_j = tags_j[tag] + subscripts_j[number among its siblings], both of P features, a table of each for every depth j < n: W_1
    (F, n P), W_2 (D, F). MarkupLM (Li et al. 2022, arXiv 2110.08518, section 3.2). A call names the path as `types` (B, T, 1 +
    2 n): the kind of segment, n tags, n subscripts; named by none, each is that of a step that is not there.
    """

    kind: Literal["tree_placed_tokens"] = "tree_placed_tokens"  # type: ignore[assignment]
    depth: Count = 50
    """n, the longest path."""
    tags: Count = 256
    """Rows of a table of tags."""
    subscripts: Count = 1024
    """Rows of a table of subscripts."""
    features: Count = 32
    """Features of a row (P)."""
    inner: Count
    """Features between both matrices (F)."""
    no_tag: Index = 216
    """The row of a step beyond the end of a path."""
    no_subscript: Index = 1001
    """Likewise."""

    @model_validator(mode="after")
    def _has_rows(self) -> TreePlacedEmbedding:
        for name, row, rows in (("no_tag", self.no_tag, self.tags), ("no_subscript", self.no_subscript, self.subscripts)):
            if row >= rows:
                raise ValueError(f"{name} = {row} is no row of a table of {rows}: name one below it")
        return self

    @property
    def more_numbers(self) -> int:
        return 2 * self.depth

    def sketch(self, width: int) -> Sketch:
        made = super().sketch(width)
        places = f"+ a path of {self.depth} tags, {number(self.depth * self.features)} → {number(self.inner)} → {number(width)}"
        return Sketch(made.title, (*made.facts, places), made.flow)

    def build(self, width: int) -> TreePlacesModule:
        from anyformer.parts.embedding.tree_places_module import TreePlacesModule

        return TreePlacesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        rows, steps = batch * length, self.depth * self.features
        tables = {
            f"places.{name}": Weight((self.depth, count, self.features), "replicate", "embedding", linear=False)
            for name, count in (("tags", self.tags), ("subscripts", self.subscripts))
        }
        parts = matrix("up", steps, self.inner, rows, role="replicate", bias=True)
        parts += matrix("down", self.inner, width, rows, role="replicate", bias=True)
        inner = {"places": parts, "places.activation": ACTIVATIONS["relu"].cost(self.inner, rows)}
        return super().cost(width, batch, length) + Tally(tables) + total(inner)
