"""Grouped projections: the features are cut into groups, and each group of outputs reads its own group of inputs alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import model_validator
from torch import Tensor, nn

from anyformer.describe import Count, DescriptionError, Value


class ProjectionGroups(Value):
    """The base of the groups of several projections, a field for each."""

    @model_validator(mode="after")
    def _some(self) -> ProjectionGroups:
        if all(groups == 1 for groups in self.counts.values()):
            raise ValueError("every projection has one group: leave grouped out, or set one of them higher")
        return self

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups of each projection."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @property
    def words(self) -> str:
        """In words: `query, key in 4 groups, output in 2 groups`."""
        counts = {n: [name for name, own in self.counts.items() if own == n] for n in dict.fromkeys(self.counts.values())}
        said = [f"{', '.join(names)} in {groups} groups" for groups, names in counts.items() if groups > 1]
        return ", ".join(said)

    def check(self, projections: Mapping[str, tuple[int, int]]) -> None:
        """Refuse the inputs and outputs of a projection that its groups do not divide."""
        for name, (inputs, outputs) in projections.items():
            groups = self.counts[name]
            if inputs % groups or outputs % groups:
                raise DescriptionError(
                    f"grouped.{name} must divide the {inputs} inputs and the {outputs} outputs of the projection, got {groups}"
                )


class HeadGroups(ProjectionGroups):
    """Groups of the projections of attention: y = x W, W block-diagonal, as a convolution of width 1 in groups is.

    SqueezeBERT (Iandola et al. 2020, arXiv 2006.11316) has 4, 4, 4 and 1.
    """

    query: Count = 1
    key: Count = 1
    value: Count = 1
    output: Count = 1


class NetworkGroups(ProjectionGroups):
    """Groups of the projections of a feed-forward network: y = x W, W block-diagonal.

    SqueezeBERT (Iandola et al. 2020, arXiv 2006.11316) has 4 and 4; these are the grouped linear layers of ConvBERT (Jiang et
    al. 2020, arXiv 2008.02496).
    """

    gate: Count = 1
    up: Count = 1
    down: Count = 1


class GroupedLinear(nn.Module):
    """x W^T + b, W block-diagonal: (..., I) -> (..., O); weight: (O, I / n), the rows of the n blocks one after the other."""

    def __init__(self, inputs: int, outputs: int, groups: int, *, bias: bool = True) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(outputs, inputs // groups))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def extra_repr(self) -> str:
        return f"inputs={self.weight.shape[1] * self.groups}, outputs={len(self.weight)}, groups={self.groups}"

    def forward(self, x_I: Tensor) -> Tensor:
        x_nZi = x_I.reshape(-1, self.groups, self.weight.shape[1]).transpose(0, 1)
        y_nZo = x_nZi @ self.weight.view(self.groups, -1, self.weight.shape[1]).mT
        y_O = y_nZo.transpose(0, 1).reshape(*x_I.shape[:-1], len(self.weight))
        return y_O if self.bias is None else y_O + self.bias


def projection(inputs: int, outputs: int, *, bias: bool, groups: int) -> nn.Module:
    """The linear map of one projection."""
    return nn.Linear(inputs, outputs, bias) if groups == 1 else GroupedLinear(inputs, outputs, groups, bias=bias)
