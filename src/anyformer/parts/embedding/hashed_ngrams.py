"""Hashed n-gram embeddings: rows for the latest tokens, beside that of the token itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive
from anyformer.operations import Shape, StateBytes, Tally, Watchables, value
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.embedding.ngrams import Ngrams
from anyformer.parts.sketch import Cell, SideInput, Sketch
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.embedding.hashed_ngrams_module import HashedNgramsModule


class HashedNgrams(Sublayer):
    """y_t = scale * sum of the rows of t's n-grams, tables (rows, D): a branch of the first layer adds it to the embedding.

    Large tables cost memory and no products. The bytes of BLT have tables of 3- to 8-grams, the sum divided by their number + 1
    (Pagnoni et al. 2024, arXiv 2412.09871); modded-nanogpt (Jordan et al.) has one of bigrams. In later layers it gives the
    n-grams again, without a look at the stream; `Engram` has a gate.
    """

    kind: Literal["hashed_ngrams"] = "hashed_ngrams"
    reads_stream: ClassVar[bool] = False
    ngrams: Ngrams
    scale: Positive = 1.0

    def sketch(self, width: int) -> Sketch:
        rows = Cell(f"{self.ngrams.tables} rows of {self.ngrams.total:,} × {width}", "memory")
        return Sketch("Hashed n-grams", (self.ngrams.words,), SideInput(rows))

    @property
    def traits(self) -> Traits:
        return Traits("n-grams")

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,)

    def build(self, width: int, plan: Plan, name: str) -> HashedNgramsModule:
        from anyformer.parts.embedding.hashed_ngrams_module import HashedNgramsModule

        return HashedNgramsModule(self, width)

    def watchable(self, width: int) -> Watchables:
        return {"rows": value("BTnD", "the row of each table", n=self.ngrams.tables, D=width)}

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        held = self.ngrams.state_bytes(shape.batch)
        return self.ngrams.cost(width).within("ngrams") + Tally(own_state=StateBytes.of(shape, held, held))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> ConvolutionState:
        """The latest tokens, for any capacity."""
        return self.ngrams.state(batch, device)
