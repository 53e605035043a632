"""Token embedding: a row of a table per token."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.tally import Tally, Weight


class Embedding(Value):
    """x = scale * table[token], table (V, D). A look-up costs no matrix product."""

    vocab: Annotated[int, Field(ge=1)]
    """V, rows of the table."""
    scale: Annotated[float, Field(gt=0)] = 1.0
    """Factor of every row (Gemma: sqrt(D))."""

    def build(self, width: int) -> EmbeddingModule:
        return EmbeddingModule(self, width)

    def cost(self, width: int) -> Tally:
        return Tally({"weight": Weight((self.vocab, width), "column", "embedding")})


class EmbeddingModule(nn.Module):
    """(B, T) int -> (B, T, D)."""

    def __init__(self, embedding: Embedding, width: int) -> None:
        super().__init__()
        self.scale = embedding.scale
        self.weight = nn.Parameter(torch.empty(embedding.vocab, width))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = nn.functional.embedding(tokens_BT, self.weight)
        return x_BTD if self.scale == 1.0 else x_BTD * self.scale
