"""The modules of tokens that carry their place in a tree of tags."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.embedding.embedding_module import EmbeddingModule
from anyformer.parts.embedding.tree_places import TreePlacedEmbedding
from anyformer.parts.lookup import rows_of
from anyformer.parts.pointwise.activation_module import built_activation


class PlacesModule(nn.Module):
    """Tags and subscripts of paths, (B, T, n) each -> (B, T, D)."""

    def __init__(self, part: TreePlacedEmbedding, width: int) -> None:
        super().__init__()
        self.tags = nn.Parameter(torch.empty(part.depth, part.tags, part.features))
        self.subscripts = nn.Parameter(torch.empty(part.depth, part.subscripts, part.features))
        self.up = nn.Linear(part.depth * part.features, part.inner)
        self.activation = built_activation("relu", part.inner)
        self.down = nn.Linear(part.inner, width)

    def forward(self, tags_BTn: Tensor, subscripts_BTn: Tensor) -> Tensor:
        steps = [
            rows_of(self.tags[j], tags_BTn[..., j], "tags of paths")
            + rows_of(self.subscripts[j], subscripts_BTn[..., j], "subscripts of paths")
            for j in range(self.tags.shape[0])
        ]
        y_BTD: Tensor = self.down(self.activation(self.up(torch.cat(steps, -1))))
        return y_BTD


class TreePlacesModule(EmbeddingModule):
    """(B, T) int, and the kinds of segments alone (B, T), or with paths (B, T, 1 + 2 n) -> (B, T, D)."""

    def __init__(self, embedding: TreePlacedEmbedding, width: int) -> None:
        super().__init__(embedding, width)
        self.part = embedding
        self.places = PlacesModule(embedding, width)

    def forward(self, given: Tensor, padding: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        part = self.part
        if types is None or types.dim() == 2:
            x_BTD: Tensor = super().forward(given, padding, types)
            shape = *given.shape, part.depth
            placed_BTD: Tensor = self.places(given.new_full(shape, part.no_tag), given.new_full(shape, part.no_subscript))
            return x_BTD + placed_BTD
        x_BTD = super().forward(given, padding, types[..., 0])
        placed_BTD = self.places(types[..., 1 : part.depth + 1], types[..., part.depth + 1 :])
        return x_BTD + placed_BTD
