"""A projection of embeddings to the width of the stream."""

from __future__ import annotations

from typing import Literal

from anyformer.operations import Tally, matrix
from anyformer.parts.sketch import Drawn


class InputProjection(Drawn):
    """x W^T + b, from the features of embeddings, narrow or not, to those of the stream, W (D, embedding width)."""

    place: Literal["first", "last"] = "last"
    """Before the positions (OPT-350m), or after positions, norm and dropout, which are then as narrow (ALBERT, FNet)."""
    bias: bool = True

    def cost(self, embedding_width: int, width: int, rows: int) -> Tally:
        return matrix("", embedding_width, width, rows, role="replicate", bias=self.bias)
