"""Tensors of which every process has a part, as plain tensors and back.

Nothing is imported for them before there are any: torch's own take the compiler with them, which is seconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from anyformer.operations import Extent

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement


def is_divided(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether this process has a part of a tensor."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def whole(tensor: Tensor) -> Tensor:
    """The tensor with the parts of all processes, each of which must call this; a tensor that is not divided itself."""
    return tensor.full_tensor() if is_divided(tensor) else tensor


def part(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, divided as another one is; the tensor itself where that is not divided."""
    return from_part(tensor[extent_of(like).slices].clone(), like) if is_divided(like) else tensor


@torch.no_grad()
def copy_in(tensor: Tensor, values: Tensor) -> None:
    """Copy the values of a whole tensor into one that may be divided."""
    local(tensor).copy_(values[extent_of(tensor).slices])


def extent_of(tensor: Tensor) -> Extent:
    """Where this process's part of a tensor stands in it; all of one that is not divided."""
    shape = tuple(tensor.shape)
    return _extent(shape, tensor.device_mesh, tensor.placements) if is_divided(tensor) else Extent.all_of(shape)


@lru_cache(maxsize=1024)
def _extent(shape: tuple[int, ...], mesh: DeviceMesh, places: tuple[Placement, ...]) -> Extent:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    size, start = compute_local_shape_and_global_offset(shape, mesh, places)
    # A process without a part is said to begin at the end or beyond it.
    return Extent(tuple(map(min, start, shape)), tuple(size))


def from_part(own: Tensor, like: DTensor, device: torch.device | None = None) -> Tensor:
    """A tensor that is divided as another one is, from this process's part of it; `device`: by default that of the other."""
    from torch.distributed.tensor import DTensor

    mesh, places = like.device_mesh, like.placements
    return DTensor.from_local(
        own.to(device or like.device), mesh, places, run_check=False, shape=like.shape, stride=like.stride()
    )


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if is_divided(tensor) else tensor


@torch.no_grad()
def norm_of(tensors: Iterable[tuple[Tensor, int]]) -> float:
    """The norm of all tensors of a run in several processes, each of which must call this; every number counts once.

    Beside each tensor: of how many stages of a pipeline one alone has it, 1 for what all have.
    """
    import torch.distributed as dist

    square = torch.zeros((), dtype=torch.float64)
    for tensor, stages in tensors:
        own = local(tensor)
        square = square.to(own.device) + torch.linalg.vector_norm(own.float()).double().square() * stages / copies(tensor)
    dist.all_reduce(square)
    return math.sqrt(square.item())


def copies(tensor: Tensor) -> int:
    """How many processes of a run hold each number of a tensor."""
    import torch.distributed as dist

    processes = dist.get_world_size()
    if not is_divided(tensor):
        return processes
    mesh = tensor.device_mesh
    parts = math.prod(mesh.size(i) for i, placement in enumerate(tensor.placements) if not placement.is_replicate())
    return processes // parts
