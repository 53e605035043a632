"""The base module of linear attentions over heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads


class RecurrentHeadsModule(nn.Module):
    """The four projections, separate in storage."""

    def __init__(self, heads: RecurrentHeads, width: int) -> None:
        super().__init__()
        self.head_width = E = heads.width_of_head(width)
        H, K = heads.heads * E, heads.groups * E
        self.query = nn.Linear(width, H, bias="query" in heads.bias)
        self.key = nn.Linear(width, K, bias="key" in heads.bias)
        self.value = nn.Linear(width, K, bias="value" in heads.bias)
        self.output = nn.Linear(H, width, bias="output" in heads.bias)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(..., heads * E) -> (..., heads, E)."""
    return x.view(*x.shape[:-1], heads, -1)


def heads_first(x_BTHE: Tensor, groups: int) -> Tensor:
    """(B, T, H, E) -> (B, K, H / K, T, E): head h belongs to group h // (H / K)."""
    return torch.unflatten(x_BTHE, 2, (groups, -1)).permute(0, 2, 3, 1, 4)


def time_first(x_BKGTE: Tensor) -> Tensor:
    """(B, K, G, T, E) -> (B, T, H, E)."""
    return x_BKGTE.permute(0, 3, 1, 2, 4).flatten(2, 3)
