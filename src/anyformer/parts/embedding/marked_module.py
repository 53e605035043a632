"""The modules of tokens that carry more numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.embedding.embedding_module import EmbeddingModule
from anyformer.parts.embedding.marked import MarkedEmbedding, Marks
from anyformer.parts.lookup import rows_of


class MarksModule(nn.Module):
    """The numbers of tokens, (B, T, n) -> (B, T, D)."""

    def __init__(self, marks: Marks, width: int) -> None:
        super().__init__()
        self.marks = marks
        self.table = nn.Parameter(torch.empty(marks.rows, marks.width or width))
        self.projection = nn.Linear(marks.width, width, bias=False) if marks.width else nn.Identity()

    def forward(self, numbers_BTn: Tensor) -> Tensor:
        read = [numbers_BTn[..., i] for i in self.marks.of]
        read += [numbers_BTn[..., span.last] - numbers_BTn[..., span.first] for span in self.marks.spans]
        looked_up = [rows_of(self.table, each_BT, "numbers of tokens") for each_BT in read]
        return self.projection(torch.stack(looked_up).sum(0) if len(looked_up) > 1 else looked_up[0])  # type: ignore[no-any-return]


class MarkedModule(EmbeddingModule):
    """(B, T) int, and the kinds of segments alone (B, T), or with the other numbers (B, T, 1 + n) -> (B, T, D)."""

    def __init__(self, embedding: MarkedEmbedding, width: int) -> None:
        super().__init__(embedding, width)
        self.more = embedding.more_numbers
        self.marks = nn.ModuleList(each.build(width) for each in embedding.marks)

    def forward(self, given: Tensor, padding: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        alone = types is None or types.dim() == 2
        x_BTD = super().forward(given, padding, types if alone or types is None else types[..., 0])
        numbers_BTn = given.new_zeros((*given.shape, self.more)) if alone or types is None else types[..., 1:]
        for marks in self.marks:
            x_BTD = x_BTD + marks(numbers_BTn)
        return x_BTD
