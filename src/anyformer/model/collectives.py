"""Collectives that gradients pass: each is a pair of operations, one for the forward pass and its conjugate for the backward.

Positions are dimension 1. Where processes divide them, each has as many, ceil(T / processes); the last ones may be padding.
Names: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2, calls `entering` f, `added_up` its conjugate, `gathered` g and
`scattered` its conjugate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

Operation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Group:
    """The processes that divide something, as this one sees them: it is number `rank` of `size`."""

    group: dist.ProcessGroup
    rank: int
    size: int

    @staticmethod
    def of(group: dist.ProcessGroup) -> Group:
        return Group(group, group.rank(), group.size())


def entering(x: Tensor, group: Group) -> Tensor:
    """x, which a process computes its part from; the gradient is the sum of all processes'."""
    return _conjugate(x, _same, partial(_sum, group=group))


def added_up(x: Tensor, group: Group) -> Tensor:
    """The sum of every process's x; the gradient of each is that of the sum."""
    return _conjugate(x, partial(_sum, group=group), _same)


def gathered(x: Tensor, length: int, group: Group) -> Tensor:
    """All `length` positions of the parts of all processes, which each computes another part from: gradients are added."""
    return _conjugate(x, partial(_gather, length=length, group=group), partial(_scatter, group=group))


def gathered_alike(x: Tensor, length: int, group: Group) -> Tensor:
    """All `length` positions of the parts of all processes, which all compute the same from: each keeps its own gradient."""
    return _conjugate(x, partial(_gather, length=length, group=group), partial(_slice, group=group))


def scattered(x: Tensor, group: Group) -> Tensor:
    """This process's positions of the sum of every process's x."""
    return _conjugate(x, partial(_scatter, group=group), partial(_gather, length=x.shape[1], group=group))


def sliced(x: Tensor, group: Group) -> Tensor:
    """This process's positions of x, which all have alike."""
    return _conjugate(x, partial(_slice, group=group), partial(_gather, length=x.shape[1], group=group))


def exchanged(rows: Tensor, sent: Sequence[int], received: Sequence[int], group: Group) -> Tensor:
    """The rows that all processes send to this one, in the order of the processes; it sends `sent[i]` of its own to process i,
    one after the other. Gradients go back the same way."""
    there = partial(_exchange, sent=sent, received=received, group=group)
    return _conjugate(rows, there, partial(_exchange, sent=received, received=sent, group=group))


def largest(x: Tensor, group: Group) -> Tensor:
    """The largest of every process's x, element by element, without a gradient."""
    found = x.detach().clone()
    dist.all_reduce(found, dist.ReduceOp.MAX, group.group)
    return found


def counted(counts: Tensor, group: Group) -> Tensor:
    """Row i: what process i counted for this one; `counts` has one row per process."""
    found = torch.empty_like(counts)
    dist.all_to_all_single(found, counts.contiguous(), group=group.group)
    return found


def own(x: Tensor, group: Group) -> Tensor:
    """This process's positions of x, which all have alike; its gradient is that of them alone, so that gradients are added."""
    return _slice(x, group)


def numbers(length: int, group: Group, device: torch.device) -> Tensor:
    """The numbers of this process's positions of `length`, those of padding beyond the last."""
    each = -(-length // group.size)
    return torch.arange(group.rank * each, (group.rank + 1) * each, device=device)


class _Conjugate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Operation, back: Operation) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


def _conjugate(x: Tensor, there: Operation, back: Operation) -> Tensor:
    moved: Tensor = _Conjugate.apply(x, there, back)  # type: ignore[no-untyped-call]
    return moved


def _same(x: Tensor) -> Tensor:
    return x.view_as(x)


def _sum(x: Tensor, group: Group) -> Tensor:
    summed = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed, group=group.group)
    return summed


def _gather(x: Tensor, length: int, group: Group) -> Tensor:
    part = x.transpose(0, 1).contiguous()
    whole = part.new_empty(group.size * len(part), *part.shape[1:])
    dist.all_gather_single(whole, part, group.group)
    return whole[:length].transpose(0, 1).contiguous()


def _scatter(x: Tensor, group: Group) -> Tensor:
    whole = _filled(x, group).transpose(0, 1).contiguous()
    part = whole.new_empty(len(whole) // group.size, *whole.shape[1:])
    dist.reduce_scatter_single(part, whole, group=group.group)
    return part.transpose(0, 1).contiguous()


def _slice(x: Tensor, group: Group) -> Tensor:
    return _filled(x, group).chunk(group.size, 1)[group.rank].contiguous()


def _filled(x: Tensor, group: Group) -> Tensor:
    """x with as many positions of zeros behind it as make equal parts."""
    missing = -x.shape[1] % group.size
    return F.pad(x, [0, 0] * (x.dim() - 2) + [0, missing]) if missing else x


def _exchange(rows: Tensor, sent: Sequence[int], received: Sequence[int], group: Group) -> Tensor:
    found = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(found, rows.contiguous(), list(received), list(sent), group=group.group)
    return found
