"""Tables of the experts of each token, which are whole numbers and no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.huggingface.rules import Shapes
from anyformer.parts import TokenTable
from anyformer.parts.experts.selection import RouterInputs

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ExpertTable:
    """The experts of each token, (V, k), of which no row names one twice; written with what stands for entries it lacks."""

    choice: TokenTable
    experts: int
    """X."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        (table,) = stored
        if table.is_floating_point() or table.min() < 0 or table.max() >= self.experts:
            raise ValueError(f"it should hold whole numbers from 0 to {self.experts - 1}")
        ordered = table.sort(-1).values
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError("a row names an expert twice, and a token passes an expert once")
        return [table.long()]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        from anyformer.parts.experts.selection_module import best

        (table,) = parameters
        vocab, chosen = table.shape
        inputs = RouterInputs(self.experts, chosen, tokens=torch.arange(vocab)[None], table=table)
        return [best(self.choice.preference(inputs), chosen)]
