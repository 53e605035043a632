"""The module of hashed n-gram embeddings."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.embedding.hashed_ngrams import HashedNgrams


class HashedNgramsModule(nn.Module):
    """(B, T, D), of which nothing is read, and the context's tokens (B, T) -> (B, T, D)."""

    def __init__(self, part: HashedNgrams, width: int) -> None:
        super().__init__()
        self.scale = part.scale
        self.ngrams = part.ngrams.build(width)

    def forward(self, x_BTD: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        rows_BTnD = context.see("rows", self.ngrams(context, state))
        return (rows_BTnD.sum(2) * self.scale).to(x_BTD.dtype)
