"""Collectives of a model that computes and does not learn: each is one call to whoever records or compiles calls of torch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from anyformer.model.collectives import Group

_GROUPS: dict[str, Group] = {}
"""Every group whose processes compute a model together, by its name, which a compiled call can hold."""


def name_of(group: Group) -> str:
    """The name by which the collectives here know a group."""
    name: str = group.group.group_name
    _GROUPS[name] = group
    return name


def summed(x: Tensor, group: str) -> Tensor:
    """The sum of every process's x, the same bits in all of them."""
    if has_torch_function_unary(x):
        made: Tensor = handle_torch_function(summed, (x,), x, group)
        return made
    y = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(y, group=_GROUPS[group].group)
    return y


def side_by_side(x: Tensor, group: str) -> Tensor:
    """(..., n) of each of P processes, which all have as much -> (..., P n), in the order of the processes."""
    if has_torch_function_unary(x):
        made: Tensor = handle_torch_function(side_by_side, (x,), x, group)
        return made
    own, size = x.contiguous(), _GROUPS[group].size
    parts = own.new_empty(size, *own.shape)
    dist.all_gather_single(parts.view(-1), own.view(-1), _GROUPS[group].group)
    return parts.movedim(0, -2).reshape(*x.shape[:-1], size * x.shape[-1])


@torch.library.custom_op("anyformer::summed", mutates_args=())
def _summed(x: Tensor, group: str) -> Tensor:
    return summed(x, group)


@_summed.register_fake
def _(x: Tensor, group: str) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("anyformer::side_by_side", mutates_args=())
def _side_by_side(x: Tensor, group: str) -> Tensor:
    return side_by_side(x, group)


@_side_by_side.register_fake
def _(x: Tensor, group: str) -> Tensor:
    return x.new_empty(*x.shape[:-1], _GROUPS[group].size * x.shape[-1])


COMPILED = {
    summed: torch.ops.anyformer.summed.default,
    side_by_side: torch.ops.anyformer.side_by_side.default,
}
"""The operator as which each is compiled."""
