"""The module of activations as the input."""

from __future__ import annotations

from torch import Tensor

from anyformer.parts.embedding.embedding_module import InputModule


class ActivationsModule(InputModule):
    """(B, T, D) -> (B, T, D)."""

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        return given
