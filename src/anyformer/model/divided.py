"""Tensors of which every process has a part, as plain tensors and back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor with the parts of all processes, each of which must call this; a tensor that is not divided itself."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, divided as another one is; the tensor itself where that is not divided."""
    if not isinstance(like, DTensor):
        return tensor
    # No rank sends: every process has the whole tensor.
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def copy_in(tensor: Tensor, values: Tensor) -> None:
    """Copy the values of a whole tensor into one that may be divided."""
    tensor.copy_(part(values.to(tensor.dtype), tensor))


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
