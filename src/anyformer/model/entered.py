"""What enters a stack, and where its positions stand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.call.state import EMPTY


@dataclass(frozen=True)
class Entered:
    """What enters a stack: x (B, T, D), padding (B, T) if there is any, and the tokens it was, if it was tokens."""

    x: Tensor
    padding: Tensor | None = None
    tokens: Tensor | None = None

    @property
    def length(self) -> int:
        return self.x.shape[1]

    def after(self, first: Entered) -> Entered:
        """Both in one sequence, `first` before this."""
        padding = None
        if first.padding is not None or self.padding is not None:
            padding = torch.cat([~first.valid, ~self.valid], 1)
        return Entered(torch.cat([first.x, self.x], 1), padding)

    def ordered(self, order_BT: Tensor) -> Entered:
        """The same positions in another order."""
        tokens = None if self.tokens is None else self.tokens.gather(1, order_BT)
        return Entered(rearranged(self.x, order_BT), None if self.padding is None else self.padding.gather(1, order_BT), tokens)

    @property
    def valid(self) -> Tensor:
        """(B, T), true where there is no padding."""
        return self.x.new_ones(self.x.shape[:2], dtype=torch.bool) if self.padding is None else ~self.padding


def rearranged(x_BTD: Tensor, order_BT: Tensor) -> Tensor:
    """Each row's positions in the order given."""
    return x_BTD.gather(1, order_BT[:, :, None].expand(-1, -1, x_BTD.shape[2]))


def count_positions(x: Tensor, padding: Tensor | None, documents: Tensor | None) -> Tensor:
    """Positions of each row of x (B, T, ...), from 0 in each document, EMPTY on padding: (B or 1, T)."""
    index = torch.arange(x.shape[1], device=x.device)[None]
    if documents is not None:
        starts = torch.ones_like(documents, dtype=torch.bool)
        starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
        index = index - torch.where(starts, index, 0).cummax(1).values
    elif padding is not None:
        index = (~padding).cumsum(1) - 1
    return index if padding is None else torch.where(padding, EMPTY, index)
