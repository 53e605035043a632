"""Where the rows of experts are computed: here, or in the processes that hold the experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from anyformer.parts.experts.chosen import FEW, chosen_product
from anyformer.parts.experts.dispatch import ExpertRows, Placement, in_order, sorted_by_expert
from anyformer.parts.experts.grouped import grouped_product

Compute = Callable[[Tensor, ExpertRows], Tensor]
"""Rows (Q, D) in groups, one per expert held here -> the outputs of their experts, (Q, D)."""


class Exchange(Protocol):
    """Computes rows (Q, D), in groups for all experts, by those that hold the experts."""

    def __call__(self, compute: Compute, rows_QD: Tensor, groups: ExpertRows) -> Tensor: ...


def here(compute: Compute, rows_QD: Tensor, groups: ExpertRows) -> Tensor:
    """`Exchange` of a process that holds all experts."""
    return compute(rows_QD, groups)


class HoldsExperts(nn.Module):
    """The base of modules whose own parameters are stacked by expert, (X, ...)."""

    def __init__(self) -> None:
        super().__init__()
        self.exchange: Exchange = here

    def placed(self, wanted_ZJ: Tensor, experts: int) -> Placement:
        """A row per choice."""
        # To put a few rows in order takes longer than their products.
        few = wanted_ZJ.device.type == "cpu" and wanted_ZJ.numel() <= FEW and self.exchange is here
        if few and not (torch.is_grad_enabled() or torch.compiler.is_compiling()):
            return in_order(wanted_ZJ)
        return sorted_by_expert(wanted_ZJ, experts)

    def product(self, name: str, rows_QI: Tensor, groups: ExpertRows) -> Tensor:
        """Each row times the matrix of its expert in the parameter `name`, by the processes that hold it: (Q, O)."""
        return self.exchange(partial(self.own_product, name), rows_QI, groups)

    def own_product(self, name: str, rows_QI: Tensor, groups: ExpertRows) -> Tensor:
        """The same, with the experts held here; rows of others become 0."""
        weight = self.get_parameter(name)
        if groups.mixed:
            return chosen_product(rows_QI, weight, groups.expert)
        return grouped_product(rows_QI, weight, groups.ends, whole=groups.whole)
