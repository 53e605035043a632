"""Tokens that carry more numbers: where their word stands on a page, in which cell of a table, how their character looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, Value
from anyformer.operations import Tally, Weight, matrix, total
from anyformer.parts.embedding.embedding import Embedding
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.embedding.marked_module import MarkedModule, MarksModule

Index = Annotated[int, Field(ge=0)]


class MarkSpan(Value):
    """The difference of two numbers of a token, n_last - n_first: the width of a box is its right edge less its left."""

    first: Index
    last: Index


class Marks(Value):
    """y = sum over i in `of` of table[n_i] + sum over `spans` of table[n_last - n_first], n the numbers of a token, from 0.

    table: (rows, D), or (rows, P) with y W, W: (D, P). LayoutLM (Xu et al. 2020, arXiv 1912.13318, section 2.2): one for the
    left and the right edge of a word's box, one for the upper and the lower, one for its width, a span, one for its height.
    """

    rows: Count
    """Rows of the table."""
    of: tuple[Index, ...] = ()
    """The numbers of a token whose rows are added."""
    spans: tuple[MarkSpan, ...] = ()
    """Pairs of numbers, whose differences have rows."""
    width: Count | None = None
    """P, where a matrix follows a table of another width (RoCBert: 512 for the shapes of characters)."""

    @model_validator(mode="after")
    def _reads_a_number(self) -> Marks:
        if not self.of and not self.spans:
            raise ValueError("a table of marks reads no number of a token: name one in of, or two in spans")
        return self

    @property
    def last(self) -> int:
        """The last number of a token that it reads."""
        return max((*self.of, *(n for span in self.spans for n in (span.first, span.last))))

    def build(self, width: int) -> MarksModule:
        from anyformer.parts.embedding.marked_module import MarksModule

        return MarksModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        made = Tally({"table": Weight((self.rows, self.width or width), "replicate", "embedding", linear=False)})
        return made if self.width is None else made + matrix("projection", self.width, width, rows, role="replicate")


class MarkedEmbedding(Embedding):
    """x = scale * table[token] + types[type] + the sum of its marks. A call names all numbers of a token as its `types`.

    These are (B, T, 1 + n), the kind of segment first, or (B, T) or none: then every number is 0. LayoutLM has the four edges
    of a word's box, TAPAS (Herzig et al. 2020, arXiv 2004.02349, section 2) a token's column, row and ranks in a table, RoCBert
    (Su et al. 2022, doi 10.18653/v1/2022.acl-long.65) the shape and the sound of a character.
    """

    kind: Literal["marked_tokens"] = "marked_tokens"  # type: ignore[assignment]
    marks: Annotated[tuple[Marks, ...], Field(min_length=1)]

    @property
    def more_numbers(self) -> int:
        return 1 + max(each.last for each in self.marks)

    def sketch(self, width: int) -> Sketch:
        made = super().sketch(width)
        tables = f"+ {len(self.marks)} tables of {self.more_numbers} more numbers"
        return Sketch(made.title, (*made.facts, tables), made.flow)

    def build(self, width: int) -> MarkedModule:
        from anyformer.parts.embedding.marked_module import MarkedModule

        return MarkedModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        inner = {f"marks.{i}": each.cost(width, batch * length) for i, each in enumerate(self.marks)}
        return super().cost(width, batch, length) + total(inner)
