"""The modules of token embeddings and of their base."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.derived import of_width
from anyformer.parts.embedding.embedding import Embedding, MaskedTokens
from anyformer.parts.embedding.vocabulary import HoldsVocabulary
from anyformer.parts.lookup import rows_of

WHOLE = (torch.int64, torch.int32)
"""Types of an index into a table."""


class InputModule(HoldsVocabulary):
    """The input of a model, its padding and its types of segments -> (B, T, D)."""

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        raise NotImplementedError

    def some(self, given: Tensor, padding: Tensor | None, types: Tensor | None, kept_BT: Tensor) -> Tensor:
        """(B, T, D): of the positions that `forward` gives those with the numbers `kept_BT`."""
        x_BTD: Tensor = self(given, padding, types)
        return x_BTD.gather(1, kept_BT[:, :, None].expand(-1, -1, x_BTD.shape[2]))


class EmbeddingModule(InputModule):
    """(B, T) int -> (B, T, D)."""

    def __init__(self, embedding: Embedding, width: int) -> None:
        super().__init__()
        columns = embedding.columns(width)
        self.scale, self.masked = of_width(embedding.scale, columns), embedding.masked
        self.weight = nn.Parameter(torch.empty(embedding.vocab, columns))
        self.narrow = embedding.narrow.build(width) if embedding.narrow else None
        self.types = nn.Parameter(torch.empty(embedding.types, width)) if embedding.types else None

    def forward(self, given: Tensor, padding: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        x_BTD = self.vocabulary.rows(self.weight, given)
        if self.scale != 1.0:
            x_BTD = x_BTD * self.scale
        if self.masked is not None:
            x_BTD = rescaled(self.masked, x_BTD, given, padding)
        if self.narrow is not None:
            x_BTD = self.narrow(x_BTD, padding)
        if self.types is not None:
            x_BTD = x_BTD + (self.types[0] if types is None else rows_of(self.types, types, "types of segments"))
        return x_BTD


def rescaled(masked: MaskedTokens, x_BTD: Tensor, tokens_BT: Tensor, padding_BT: Tensor | None) -> Tensor:
    """x with masked tokens at 0 and the others scaled as if the usual share were masked."""
    masked_BT = tokens_BT == masked.token
    real_BT = torch.ones_like(masked_BT) if padding_BT is None else ~padding_BT
    count_B1 = real_BT.sum(1, keepdim=True)
    left_B1 = (real_BT & ~masked_BT).sum(1, keepdim=True).clamp(min=1)
    factor_BT = torch.where(masked_BT, 0.0, (1 - masked.share) * count_B1 / left_B1)
    return x_BTD * factor_BT[:, :, None].to(x_BTD.dtype)
