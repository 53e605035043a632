"""The module of learned decays of a recurrent state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.recurrence.recurrence import exact
from anyformer.parts.recurrence.recurrent_heads_module import split_heads


class DecayModule(nn.Module):
    """(B, T, D) -> log-decay (B, T, H, 1 or E), never positive, in fp32 at least."""

    def __init__(self, width: int, heads: int, channels: int, *, rank: int | None, bound: float | None) -> None:
        super().__init__()
        self.channels, self.bound = channels, bound
        self.down = nn.Linear(width, rank, bias=False) if rank else nn.Identity()
        self.projection = nn.Linear(rank or width, heads * channels, bias=False)
        self.A_log = nn.Parameter(torch.empty(heads))
        self.dt_bias = nn.Parameter(torch.empty(heads * channels))

    def forward(self, x_BTD: Tensor) -> Tensor:
        step = exact(self.projection(self.down(x_BTD))) + exact(self.dt_bias)
        step = split_heads(step, step.shape[-1] // self.channels)
        rate = exact(self.A_log).exp()[:, None]
        return -rate * F.softplus(step) if self.bound is None else -self.bound * (rate * step).sigmoid()
