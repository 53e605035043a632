"""Where the rows of experts are computed: here, or in the processes that hold the experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from anyformer.parts.experts.dispatch import Groups

Compute = Callable[[Tensor, Groups], Tensor]
"""Rows (Q, D) in groups, one for each expert held here -> the outputs of their experts, (Q, D)."""


class Exchange(Protocol):
    """Computes rows (Q, D), in groups for all experts, by those that hold the experts."""

    def __call__(self, compute: Compute, rows_QD: Tensor, groups: Groups) -> Tensor: ...


def here(compute: Compute, rows_QD: Tensor, groups: Groups) -> Tensor:
    """`Exchange` of a process that holds all experts."""
    return compute(rows_QD, groups)


class HoldsExperts(nn.Module):
    """The base of modules whose own parameters are stacked by expert, (X, ...)."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: Exchange = here
