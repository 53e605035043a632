"""A model by its description alone: an engine holds the weights, and gives the logits."""

from __future__ import annotations

import torch

from anyformer.model import Architecture
from anyformer.model.initialise import on_meta
from anyformer.model.transformer import Transformer


class DescribedModel(Transformer):
    """`architecture` without values. `dtype`: of the numbers in which the engine holds what it has read of texts."""

    def __init__(self, architecture: Architecture, dtype: torch.dtype = torch.float32) -> None:
        with on_meta():
            super().__init__(architecture)
        self.eval()
        self.to(dtype)

    @property
    def device(self) -> torch.device:
        """Where logits are given, and tokens are chosen."""
        return torch.device("cpu")
