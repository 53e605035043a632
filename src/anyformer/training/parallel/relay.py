"""Models of whose layers each process has some: those of the stack that the head reads, in stages (Huang et al. 2019, arXiv
1811.06965).

Every process begins a forward pass with what stands before the stack, which all of them have; there the stream of the process
before takes the place of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from anyformer.model.collectives import Group
from anyformer.model.transformer import Transformer
from anyformer.parts.call.context import Context
from anyformer.parts.call.reports import Auxiliary, Report, plain
from anyformer.parts.layers.stack_module import StackModule
from anyformer.planning.staged import chunks_of
from anyformer.training.passes import Loads

Run = Callable[[range, Tensor], Tensor]
EARLIER = "earlier stages"
"""The path of a report that stands for all layers of the chunks before."""


class Departed(Exception):  # noqa: N818
    """No error: a forward pass that ends here, because its stream goes on in another process, with what it takes along."""

    def __init__(self, stream: Tensor, penalties: Tensor, loads: Loads) -> None:
        self.stream, self.penalties, self.loads = stream, penalties, loads


class ShapeOnly:
    """A forward pass that only asks what the stream is like: it ends before the layers."""


@dataclass(frozen=True)
class Arrived:
    """What chunk number `chunk` has of those before: none for the first, else a stream and the (3,) sums of penalties."""

    chunk: int
    given: tuple[Tensor, ...] = ()


@dataclass
class Line:
    """`Relay` of the stack at `path`, whose layers the processes of a group divide: `chunks[i]` are those of process i modulo
    their number.

    `given`: what a schedule received for a forward pass; None outside a schedule, where the stream goes through all processes
    and each of them gets it back, so that they compute the rest alike.
    """

    group: Group
    path: str
    chunks: tuple[range, ...]
    given: Arrived | ShapeOnly | None = None

    @property
    def own(self) -> range:
        """The numbers of this process's chunks."""
        return range(self.group.rank, len(self.chunks), self.group.size)

    def ends(self, chunk: int) -> bool:
        """Whether the stream ends behind a chunk."""
        return chunk == len(self.chunks) - 1

    def __call__(self, run: Run, x: Tensor, context: Context) -> Tensor:
        match self.given:
            case None:
                return self._all(run, x, context)
            case ShapeOnly():
                raise Departed(x, x.new_zeros(3), {})
            case Arrived(chunk, given):
                return self._own(chunk, given, run, x, context)

    def _own(self, chunk: int, given: tuple[Tensor, ...], run: Run, x: Tensor, context: Context) -> Tensor:
        """The stream after the layers of a chunk of this process. Raises `Departed` unless it is the last."""
        assert context.auxiliary is not None, "the loss of a step collects the experts' reports"
        before = torch.zeros(3, device=x.device)
        if given:
            x, before = given
        x, reports = run(self.chunks[chunk], x), context.auxiliary.reports
        if not self.ends(chunk):
            own = Auxiliary(reports={path: report for path, report in reports.items() if path.startswith(f"{self.path}.")})
            raise Departed(x.contiguous(), before + penalties(own.reports.values(), x.device), plain(own.loads))
        reports[EARLIER] = Report(None, *before.unbind())
        return x

    @torch.no_grad()
    def _all(self, run: Run, x: Tensor, context: Context) -> Tensor:
        """The stream after the layers of all processes."""
        group, size = self.group.group, self.group.size
        for chunk in self.own:
            if chunk > 0:
                x = torch.empty_like(x, memory_format=torch.contiguous_format)
                dist.recv(x, group=group, group_src=(chunk - 1) % size)
            x = run(self.chunks[chunk], x).contiguous()
            if not self.ends(chunk):
                dist.send(x, group=group, group_dst=(chunk + 1) % size)
        dist.broadcast(x, group=group, group_src=size - 1)
        if context.auxiliary is not None:
            for reports in everyone({path: report.to("cpu") for path, report in context.auxiliary.reports.items()}, self.group):
                context.auxiliary.reports.update({path: report.to(x.device) for path, report in reports.items()})
        return x


def everyone(value: dict[str, Report], group: Group) -> list[dict[str, Report]]:
    """The values of all processes of a group."""
    found = [value] * group.size
    dist.all_gather_object(found, value, group=group.group)
    return found


def penalties(reports: Iterable[Report], device: torch.device) -> Tensor:
    """(3,) the sums of balance losses, of those within sequences, and of router z-losses."""
    zero = torch.zeros((), device=device)
    columns = zip(*((each.balance, each.sequence_balance, each.router_z) for each in reports), strict=True)
    sums = [torch.stack([zero if loss is None else loss for loss in column]).sum() for column in columns]
    return torch.stack(sums) if sums else zero.expand(3)


def divide_stages(model: Transformer, group: Group, chunks: int = 1) -> None:
    """Deal the layers of a model to the processes of a group, so many chunks to each; it keeps those of this one alone."""
    path = model.output
    stack = model.get_submodule(path)
    assert isinstance(stack, StackModule)
    line = Line(group, path, chunks_of(len(stack.layers), group.size * chunks))
    owners = {i: chunk % group.size for chunk, layers in enumerate(line.chunks) for i in layers}
    model.stage_of = {
        f"{path}.layers.{i}.{name}": stage for i, stage in owners.items() for name, _ in stack.layers[i].named_parameters()
    }
    for i, stage in owners.items():
        if stage != group.rank:
            stack.layers[i] = nn.Identity()
    stack.relay = line
