"""The base module of linear attentions over heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads


class RecurrentHeadsModule(nn.Module):
    """The four projections, separate in storage."""

    def __init__(self, heads: RecurrentHeads, width: int) -> None:
        super().__init__()
        self.head_width = E = heads.width_of_head(width)
        self.counts = {"query": heads.heads, "key": heads.groups, "value": heads.groups}
        H, K = heads.heads * E, heads.groups * E
        self.query = nn.Linear(width, H, bias="query" in heads.bias)
        self.key = nn.Linear(width, K, bias="key" in heads.bias)
        self.value = nn.Linear(width, K, bias="value" in heads.bias)
        self.output = nn.Linear(H, width, bias="output" in heads.bias)

    def projected(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, heads side by side: (B, T, heads * E) each."""
        return (
            by_head("query", self.query(x_BTD), self.counts["query"], context),
            by_head("key", self.key(x_BTD), self.counts["key"], context),
            by_head("value", self.value(x_BTD), self.counts["value"], context),
        )


def by_head(name: str, x: Tensor, heads: int, context: Context) -> Tensor:
    """Heads side by side, (B, T, heads * E), seen head by head."""
    return x if context.opened is None else context.see(name, split_heads(x, heads)).flatten(2)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(..., heads * E) -> (..., heads, E)."""
    return x.view(*x.shape[:-1], heads, -1)


def heads_first(x_BTHE: Tensor, groups: int) -> Tensor:
    """(B, T, H, E) -> (B, K, H / K, T, E): head h belongs to group h // (H / K)."""
    return torch.unflatten(x_BTHE, 2, (groups, -1)).permute(0, 2, 3, 1, 4)


def time_first(x_BKGTE: Tensor) -> Tensor:
    """(B, K, G, T, E) -> (B, T, H, E)."""
    return x_BKGTE.permute(0, 3, 1, 2, 4).flatten(2, 3)


def zero_on_padding(context: Context, *of_tokens: Tensor) -> tuple[Tensor, ...]:
    """Tensors (B, T, ...), 0 where a token is padding."""
    if context.valid is None:
        return of_tokens
    padding = ~context.valid
    return tuple(x.masked_fill(padding.view(*padding.shape, *(1,) * (x.dim() - 2)), 0) for x in of_tokens)
