"""The processes that generate or evaluate together, seen from one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from anyformer.checkpoint import BY_ONE, Checkers
from anyformer.describe import UserError
from anyformer.mesh import Mesh, started
from anyformer.model.portions import Divide, keep_whole

if TYPE_CHECKING:
    import torch

    from anyformer.training.parallel import Ranks

T = TypeVar("T")
REMEDY = "start all processes again"


@dataclass(frozen=True)
class OneProcess:
    """The only process: nobody to ask, nothing to divide."""

    first: bool = True
    """Whether this process prints and writes."""

    @property
    def divide(self) -> Divide:
        """What `loading.load` divides models by."""
        return keep_whole

    @property
    def checkers(self) -> Checkers:
        """The processes that check a checkpoint together."""
        return BY_ONE

    def same(self, make: Callable[[], T]) -> T:
        """What the first process makes, for all of them."""
        return make()

    def in_turn(self, act: Callable[[], T]) -> T:
        """Act in the first process, then in the others, which find what it left on the disk."""
        return act()


@dataclass(frozen=True)
class SeveralProcesses:
    """One of several, all of which call every method in the same order."""

    ranks: Ranks
    divide: Divide

    @property
    def first(self) -> bool:
        return self.ranks.first

    @property
    def checkers(self) -> Checkers:
        return self.ranks

    def same(self, make: Callable[[], T]) -> T:
        return self.ranks.same(make)

    def in_turn(self, act: Callable[[], T]) -> T:
        return self.ranks.in_turn(act)


Processes: TypeAlias = OneProcess | SeveralProcesses


@contextmanager
def processes(device: torch.device | str, expert: int = 1, timeout: float | None = None) -> Iterator[Processes]:
    """The processes that `torchrun` started, connected to one another within; one where it started none.

    `expert`: in so many ways they divide experts whole, by default their features as those of all sublayers; `timeout`: seconds
    that one waits for the others. Raises `UserError` for a number that does not divide them, and where another process ended.
    """
    count = started()
    if count == 1:
        if expert > 1:
            raise UserError(f"--expert {expert}: one process was started; start more with torchrun --nproc-per-node {expert}")
        yield OneProcess()
        return
    if count % expert:
        raise UserError(f"--expert {expert} must divide the {count} processes: choose a divisor, or leave it out")
    import torch

    from anyformer.training.parallel import joined

    device = torch.device(device)
    mesh = Mesh(data=1, tensor=count)
    with joined(mesh if timeout is None else mesh.but(timeout=timeout), device, REMEDY) as ranks:
        yield SeveralProcesses(ranks, _division(count, device, expert))


def _division(count: int, device: torch.device, expert: int) -> Divide:
    """The division among so many connected processes. Neighbours divide sublayers; experts those as far apart as can be."""
    from torch.distributed.device_mesh import init_device_mesh

    from anyformer.inference.division import Division
    from anyformer.model.collectives import Group

    def neighbours(ways: int) -> Group:
        mesh = init_device_mesh(device.type, (count // ways, ways), mesh_dim_names=("copies", "ways"))
        return Group.of(mesh.get_group("ways"))

    def apart(ways: int) -> Group:
        mesh = init_device_mesh(device.type, (ways, count // ways), mesh_dim_names=("holders", "features"))
        return Group.of(mesh.get_group("holders"))

    here = int(os.environ.get("LOCAL_WORLD_SIZE", count)) if device.type == "cpu" else 1
    groups = {ways: neighbours(ways) for ways in range(2, count + 1) if count % ways == 0}
    return Division(count, here, device, groups, apart(expert) if expert > 1 else None)
