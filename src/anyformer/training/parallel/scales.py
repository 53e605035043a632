"""Scales of 8-bit products whose tensors the processes of a group divide: each has the greatest magnitude of all parts."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn

from anyformer.precision.products import NarrowLinear


def divide_scales(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Let every narrow linear map of a model scale its operands by what all processes of a group have of them.

    Of an operand that each of them has whole that is its own greatest magnitude, too.
    """

    def largest(greatest: Tensor) -> Tensor:
        found = greatest.clone()
        dist.all_reduce(found, dist.ReduceOp.MAX, group=group)
        return found

    for module in model.modules():
        if isinstance(module, NarrowLinear):
            module.divide(largest)
