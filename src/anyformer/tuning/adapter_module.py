"""The base of linear maps with an adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from anyformer.operations import Weight


class AdaptedLinear(nn.Linear):
    """A linear map with an adapter: `weight` and `bias` keep their names, the adapter's parameters stand beside them."""

    def __init__(self, frozen: nn.Linear, own: Mapping[str, Weight]) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = frozen.in_features, frozen.out_features
        self.weight = frozen.weight
        self.register_parameter("bias", frozen.bias)
        self.dropout: nn.Module = nn.Identity()
        """Of the input of A."""
        for name, weight in own.items():
            made = torch.empty(weight.shape, dtype=frozen.weight.dtype, device=frozen.weight.device)
            self.register_parameter(name, nn.Parameter(made))

    def first_values(self, weight: Tensor) -> dict[str, Tensor]:
        """The first values, by name, of parameters that follow from the frozen weight, which is given whole; those of low-rank
        matrices are drawn."""
        return {}

    def divide_inputs(self, total: Callable[[Tensor], Tensor]) -> None:
        """Compute from some of the inputs, with the columns of the matrix that read them; outputs of all processes are added.

        `total`: the sum of a tensor over the processes that have the other inputs.
        """
