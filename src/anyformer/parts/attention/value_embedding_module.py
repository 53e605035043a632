"""The module of value embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.value_embedding import ValueEmbedding
from anyformer.parts.lookup import rows_of
from anyformer.parts.slot import HeadSizes


class ValueEmbeddingModule(nn.Module):
    """Values (B, T, K, U), what they read (B, T, D) and the tokens (B, T) -> (B, T, K, U)."""

    def __init__(self, part: ValueEmbedding, sizes: HeadSizes) -> None:
        super().__init__()
        self.scale = part.scale
        self.table = nn.Parameter(torch.empty(part.vocab, sizes.features("value")))
        self.gate = part.gate.module(sizes.inputs, sizes.groups, sizes.value_width) if part.gate else None

    def forward(self, v_BTKU: Tensor, x_BTD: Tensor, tokens_BT: Tensor | None) -> Tensor:
        assert tokens_BT is not None, "a stack whose layers read tokens gets them"
        rows = rows_of(self.table, tokens_BT, "tokens of a value embedding")
        rows_BTKU = rows.to(v_BTKU.dtype).view(v_BTKU.shape) * self.scale
        return v_BTKU + (rows_BTKU if self.gate is None else self.gate(x_BTD, rows_BTKU))
