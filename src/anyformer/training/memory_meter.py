"""Memory of updates: bytes of tensors, and on Linux the size of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

from anyformer.costs.activations import activations
from anyformer.costs.allocated import watching_allocations
from anyformer.costs.available import free_memory
from anyformer.costs.member import Member
from anyformer.costs.memory_check import CLOSE, Processes, memory_warnings, training_bytes
from anyformer.costs.step import PricedStep
from anyformer.mesh import started, started_here
from anyformer.model.divided import local
from anyformer.objectives import divides_logits
from anyformer.operations import Shape
from anyformer.planning.process_memory import members
from anyformer.quantising.tensor import stored_bytes
from anyformer.training.allocator import give_back
from anyformer.training.place import checkpoint_bytes
from anyformer.training.priced import step_of
from anyformer.training.run import Run

TENSORS_AT = 2
"""The update of a process whose tensors are counted: the first one has no moments yet, and later ones are all alike.
Counting makes it somewhat slower."""
RESIDENT_AT = range(TENSORS_AT, TENSORS_AT + 4)
"""Updates during which the size of the process is read."""


@dataclass
class MemoryMeter:
    """Made before the model. `tensors`: bytes alive at the peak of an update, weights and moments included; `resident`: the
    largest growth of the process since, with memory that its allocator keeps; None where it is not measured."""

    device: torch.device
    room: bool = True
    """Whether a copy of a checkpoint's tensors fits beside the updates, on the CPU."""
    alone: bool = True
    """Whether one process trains. Of several none counts tensors on a CPU: notes of every operation would take memory in each
    (measured: 2.4 MB per layer of a micro-batch)."""
    tensors: int | None = None
    resident: int | None = None
    _before: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if sys.platform.startswith("linux"):
            give_back()
            self._before = status("VmRSS")

    @contextmanager
    def watching(self, update: int, held: Callable[[], int]) -> Iterator[None]:
        """Measure update number `update` (from 1) of this process. `held`: bytes of tensors that stay between updates."""
        counts = update == TENSORS_AT and (self.alone or self.device.type == "cuda")
        before = held() if counts else 0
        reads = update in RESIDENT_AT and self._before is not None and _forget_peak()
        with watching_allocations(self.device) if counts else nullcontext() as watched:
            yield
        if watched is not None:
            self.tensors = before + watched.most
            give_back()  # what the profiler noted would stay in the process
        size = status("VmHWM") if reads else None
        if size is not None and self._before is not None:
            self.resident = max(self.resident or 0, size - self._before)


def processes_of(run: Run, directory: Path, device: torch.device) -> Processes:
    """The processes of a run that share the memory of this one's device: on a CPU all that were started on the machine."""
    here = started_here() if device.type == "cpu" else 1
    if started() == 1:
        return Processes(here=here)
    return Processes(members_of(run, step_of(run, directory)), here)


def members_of(run: Run, step: PricedStep) -> tuple[Member, ...]:
    """What a process of the run's mesh holds of its step; those of one stage of a pipeline hold as much."""
    architecture, plan, shape = run.architecture, run.plan, step.shape(1, run.length)
    saved = activations(architecture, shape, plan, signal=step.signal)
    tuned = None if run.tuning.everything else run.tuning.of(architecture.trained_cost(Shape(source=1)))
    divides = divides_logits(run.objective)
    return members(architecture, plan.mesh, saved, shape, plan, vocabulary=divides, tuned=tuned)


def check_memory(run: Run, directory: Path, device: torch.device, console: Console) -> None:
    """Raise an error if the updates do not fit into free memory, and print a warning if they nearly fill it."""
    for line in memory_warnings(
        step_of(run, directory), batch=run.batch, length=run.length, plan=run.plan, accumulation=run.accumulation,
        device=device, processes=processes_of(run, directory, device),
    ):  # fmt: skip
        console.out(line, highlight=False)


def room_for_copy(run: Run, directory: Path, device: torch.device) -> bool:
    """Whether a copy of what this machine's processes write of a checkpoint fits into the CPU's free memory, beside the updates
    if these are made there."""
    updates = 0
    if device.type == "cpu":
        updates = training_bytes(
            step_of(run, directory), batch=run.batch, length=run.length, plan=run.plan, accumulation=run.accumulation,
            processes=processes_of(run, directory, device),
        )  # fmt: skip
    return updates + started_here() / started() * checkpoint_bytes(run) <= CLOSE * free_memory(torch.device("cpu"))


def state_bytes(model: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Bytes of the weights and of the optimiser's state, as far as this process holds them."""
    moments = [x for state in optimiser.state.values() for x in state.values() if isinstance(x, Tensor)]
    return sum(stored_bytes(local(x)) for x in (*model.parameters(), *moments))


def peak_of_process(device: torch.device) -> int | None:
    """The most bytes that this process held of the device's memory, on a CPU since they were last forgotten; None where the
    system does not say."""
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else status("VmHWM")


def _forget_peak() -> bool:
    """Reset the largest size of the process, which the system records."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return False
    return True


def status(name: str) -> int | None:
    """Bytes of an entry in /proc/self/status."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
