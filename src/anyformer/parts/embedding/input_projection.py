"""What brings narrow embeddings to the width of the stream."""

from __future__ import annotations

from typing import Literal

from anyformer.parts.sketch import Drawn
from anyformer.tally import Tally, matrix


class InputProjection(Drawn):
    """x W^T + b, from the features of narrow embeddings to those of the stream, W (D, embedding width)."""

    place: Literal["first", "last"] = "last"
    """Before the positions (OPT-350m), or after positions, norm and dropout, which are then as narrow (ALBERT, ELECTRA)."""
    bias: bool = True

    def cost(self, name: str, embedding_width: int, width: int, rows: int) -> Tally:
        return matrix(name, embedding_width, width, rows, role="replicate", bias=self.bias)
