"""A count of the bytes that collectives carry, as `planning.collectives` foretells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _resolve_process_group  # type: ignore[attr-defined]
from torch.utils._python_dispatch import TorchDispatchMode

Sized = Callable[[tuple[Any, ...], Any], int]


def _bytes(tensors: Any) -> int:
    """The bytes of a tensor, or of tensors in lists."""
    if isinstance(tensors, Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(map(_bytes, tensors)) if isinstance(tensors, list | tuple) else 0


def _first(arguments: tuple[Any, ...], found: Any) -> int:
    return _bytes(arguments[0])


def _second(arguments: tuple[Any, ...], found: Any) -> int:
    return _bytes(arguments[1])


def _result(arguments: tuple[Any, ...], found: Any) -> int:
    return _bytes(found)


OPERATIONS: Mapping[str, tuple[str, Sized]] = {
    "c10d::_allgather_base_": ("all-gather", _first),
    "c10d::allgather_into_tensor_coalesced_": ("all-gather", _first),
    "c10d::_reduce_scatter_base_": ("reduce-scatter", _second),
    "c10d::reduce_scatter_tensor_coalesced_": ("reduce-scatter", _second),
    "c10d::allreduce_": ("all-reduce", _first),
    "c10d::alltoall_base_": ("all-to-all", _second),
    "c10d::send": ("send", _first),
    "_c10d_functional::all_gather_into_tensor": ("all-gather", _result),
    "_c10d_functional::reduce_scatter_tensor": ("reduce-scatter", _first),
    "_c10d_functional::all_reduce": ("all-reduce", _first),
    "_c10d_functional::all_reduce_": ("all-reduce", _first),
    "_c10d_functional::all_to_all_single": ("all-to-all", _first),
}


WITHIN = ("wait", "_wrap", "recv_")
"""Of operators that send nothing."""


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts, within, the bytes of this process's collectives by operation and dimension of the mesh."""

    def __init__(self, *meshes: DeviceMesh) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.unknown: Counter[str] = Counter()
        """Collectives of other kinds, which would be missing."""
        self.dimensions: dict[tuple[int, ...], list[str]] = {}
        """The names of each group of ranks: one of all processes that divide experts is `shard` and `expert`."""
        for mesh in meshes:
            for name in mesh.mesh_dim_names or ():
                self.dimensions.setdefault(ranks_of(mesh.get_group(name)), []).append(name)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func._schema.name if isinstance(func, torch._ops.OpOverload) else ""
        if name in OPERATIONS:
            operation, sized = OPERATIONS[name]
            ranks = ranks_of(group_of((*args, *(kwargs or {}).values())))
            if len(ranks) > 1:
                names = self.dimensions.get(ranks, [str(ranks)])
                self.bytes[operation, names[-1 if operation == "all-to-all" else 0]] += sized(args, found)
        elif name.startswith(("c10d::", "_c10d_functional::")) and not any(word in name for word in WITHIN):
            self.unknown[name] += 1
        return found


def group_of(arguments: Iterable[Any]) -> dist.ProcessGroup:
    """The process group among an operation's arguments: itself, or its name, which comes last."""
    given = list(arguments)
    for each in given:
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return dist.ProcessGroup.unbox(each)
    return _resolve_process_group(next(each for each in reversed(given) if isinstance(each, str)))  # type: ignore[arg-type]


def ranks_of(group: dist.ProcessGroup) -> tuple[int, ...]:
    """The ranks of a group, in order."""
    return tuple(dist.get_process_group_ranks(group))
