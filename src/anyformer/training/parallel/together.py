"""`Together`: one of several processes of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TextIO, TypeVar, cast

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from anyformer.checkpoint import Contents, Pick, Take
from anyformer.describe import UserError
from anyformer.mesh import Mesh
from anyformer.model.collectives import Group
from anyformer.model.transformer import Transformer
from anyformer.plan import Plan
from anyformer.training.computing_place import Within
from anyformer.training.lines import LaterFile, Lines
from anyformer.training.parallel.context import divide_logits, divide_positions
from anyformer.training.parallel.exchange_clock import ExchangeClock, beside_training
from anyformer.training.parallel.experts import divide_experts
from anyformer.training.parallel.pipeline import Pipelined
from anyformer.training.parallel.relay import divide_stages
from anyformer.training.parallel.scales import divide_scales
from anyformer.training.parallel.sharding import OwnMesh, Root, gather_within, runs_of, sharded
from anyformer.training.parallel.shares import SharedCheckpoints, Staged
from anyformer.training.parallel.tensor import divide_layers
from anyformer.training.parallel.vocabulary import divide_vocabulary
from anyformer.training.passes import Gathered, MicroBatchLoss, Passes
from anyformer.training.place import held
from anyformer.training.stop import Stop, Stopped

T = TypeVar("T")
LOGS = "ranks"
"""The folder, in a run's directory, of what the processes beside the first one say."""


@dataclass(frozen=True)
class Together:
    """One of the processes of a mesh, connected by torch.distributed. Every method must be called by all of them in the same
    order."""

    asked: Mesh
    mesh: DeviceMesh
    """Over all processes: pipeline x data x shard x context x tensor."""
    weights: DeviceMesh
    """The same by what divides weights: pipeline x data x weights x tensor, weights being shard x context."""
    experts: DeviceMesh | None
    """The same, where experts are divided: pipeline x data x outer x expert x tensor, weights being outer x expert."""
    rows: dist.ProcessGroup
    """One process of every replica: those with this one's place in it."""
    checkpoints: SharedCheckpoints
    rank: int
    size: int
    clock: ExchangeClock

    @staticmethod
    def of(asked: Mesh, device: torch.device, clock: ExchangeClock | None = None) -> Together:
        """This process in a mesh over all processes of the default group; `clock`: of its exchanges, else they take no time."""
        assert asked.data is not None, "the mesh is resolved"
        sizes = (asked.pipeline, asked.data, asked.weights, asked.tensor)
        weights = init_device_mesh(device.type, sizes, mesh_dim_names=("pipeline", "data", "weights", "tensor"))
        mesh = weights._unflatten("weights", (asked.shard, asked.context), ("shard", "context"))
        rows = mesh["data", "shard"]._flatten("rows").get_group()
        apart = (asked.weights // asked.expert, asked.expert)
        experts = weights._unflatten("weights", apart, ("outer", "expert")) if asked.expert > 1 else None
        rank, size = dist.get_rank(), dist.get_world_size()
        written = dist.new_group(timeout=timedelta(seconds=asked.timeout), backend="gloo")
        checkpoints = SharedCheckpoints(rank, size, size // asked.pipeline, written)
        return Together(asked, mesh, weights, experts, rows, checkpoints, rank, size, clock or ExchangeClock(device))

    @property
    def replica(self) -> int:
        return self.rank % self._stage // self.asked.alike

    @property
    def replicas(self) -> int:
        return self.asked.replicas

    @property
    def meshes(self) -> list[DeviceMesh]:
        """Every mesh of the run."""
        return [self.mesh, self.weights] if self.experts is None else [self.mesh, self.weights, self.experts]

    @property
    def first(self) -> bool:
        return self.rank == 0

    def total(self, number: float) -> float:
        # In float64, so that integers stay exact.
        summed = torch.tensor(number, dtype=torch.float64, device=self._device)
        dist.all_reduce(summed, group=self.rows)
        return float(summed)

    def sum(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        summed = {}
        for name in sorted(tensors):
            summed[name] = tensors[name].detach().clone()
            dist.all_reduce(summed[name], group=self.rows)
        return summed

    def largest(self, numbers: Tensor) -> Tensor:
        found = numbers.detach().clone()
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.rows)
        return found

    def every(self, value: T) -> list[T]:
        found: list[T] = [value] * self.size
        dist.all_gather_object(found, value)
        return found

    def of_replicas(self, value: T) -> list[T]:
        return self.every(value)[: self._stage : self.asked.alike]

    def same(self, make: Callable[[], T]) -> T:
        made: list[tuple[T | None, Exception | None]] = [(None, None)]
        if self.first:
            try:
                made = [(make(), None)]
            except UserError as error:
                error.teller = 0
                made = [(None, error)]
        dist.broadcast_object_list(made, src=0)
        value, problem = made[0]
        if problem is not None:
            raise problem
        return value  # type: ignore[return-value]

    def in_turn(self, act: Callable[[], T]) -> T:
        if self.first:
            done = act()
            dist.barrier()
            return done
        dist.barrier()
        return act()

    def first_alone(self, act: Callable[[], None]) -> None:
        self.same(act)

    @contextmanager
    def alone_in(
        self, directory: Path, remedy: str = "", check: Callable[[Path], None] = lambda directory: None
    ) -> Iterator[None]:
        with ExitStack() as stack:
            self.same(lambda: stack.enter_context(held(directory, remedy, check)))
            yield

    @contextmanager
    def console(self, console: Console | None, directory: Path) -> Iterator[Console]:
        if self.first:
            yield console or Lines()
            return
        with LaterFile(directory / LOGS / f"{self.rank}.log") as file:
            yield Console(file=cast("TextIO", file))

    def meet(self, stop: Stop, told: T) -> list[T]:
        every = self.every((stop.asked or 0, told))
        if asked := max(signal for signal, _ in every):
            raise Stopped(asked, stop.doing)
        return [each for _, each in every]

    def waited(self) -> float:
        return self.clock.seconds

    def updating(self, stop: Stop) -> AbstractContextManager[None]:
        return stop.held_together("finishing the update in all processes")

    def divide(self, models: Sequence[Transformer], plan: Plan, *, vocabulary: bool = False) -> Within:
        apart = OwnMesh()
        if self.asked.pipeline > 1:
            divide_stages(models[0], Group.of(self.mesh["pipeline"].get_group()), self.asked.chunks)
        for model in models:
            if self.asked.context > 1:
                divide_positions(model, self.mesh["context"])
            if self.asked.tensor > 1:
                divide_layers(model, self.weights["tensor"])
                if vocabulary:
                    divide_vocabulary(model, self.weights["tensor"])
            if self.asked.context > 1 and vocabulary:
                divide_logits(model, self.mesh)
            for name in ("context", "tensor"):
                if self.mesh[name].size() > 1:
                    divide_scales(model, self.mesh[name].get_group())
        if self.experts is not None:
            over = self.experts["expert", "tensor"]
            weights = [weight for model in models for weight in divide_experts(model, over)]
            apart = OwnMesh(weights, self._with_copies(self.experts, "outer"))
        root = sharded(models, self._with_copies(self.weights, "weights"), apart, compiled=plan.compile == "on")
        if self.asked.chunks > 1:
            gather_within(root, runs_of(models))
        return root

    def beforehand(self, within: Within, act: Callable[[], T]) -> T:
        assert isinstance(within, Root), "`divide` gave it"
        found: T = within(act)
        within.give_back()
        return found

    def passes(self, loss: MicroBatchLoss, within: Within) -> Passes:
        assert isinstance(within, Root), "`divide` gave it"
        if self.asked.pipeline == 1:
            return Gathered(loss, within, self.asked.context)
        return Pipelined(loss, within, self.asked.context, self.asked.schedule)

    def of_stages(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        found = [dict(tensors)] * self.asked.pipeline
        if self.asked.pipeline > 1:
            dist.all_gather_object(found, found[0], group=self.mesh["pipeline"].get_group())
        return {name: x for each in found for name, x in each.items()}

    def picking(self, take: Take, staged: Staged) -> Pick:
        return self.checkpoints.picking(take, staged)

    def beside(self, directory: Path, act: Callable[[], T]) -> list[T]:
        with beside_training():
            return self.checkpoints.together(directory, act)

    def write(self, given: Contents, directory: Path) -> int:
        return self.checkpoints.write(given, directory)

    def _with_copies(self, mesh: DeviceMesh, dividing: str) -> DeviceMesh:
        """The processes that divide weights, and the copies where there are several: sums over copies, also over a single one,
        FSDP2 holds until the backward pass ends."""
        return mesh["data", dividing] if self.asked.data != 1 else mesh[dividing]

    @property
    def _stage(self) -> int:
        """The processes of a stage of the pipeline."""
        return self.size // self.asked.pipeline

    @property
    def _device(self) -> torch.device:
        kind = self.mesh.device_type
        return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)
