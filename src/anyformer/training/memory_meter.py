"""The memory that updates take: of tensors, and on Linux of the process as the system sees it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

from anyformer.costs.allocated import watching_allocations
from anyformer.costs.foretold import foretell_training
from anyformer.training.run import Run

TENSORS_AT = 2
"""The update of a process whose tensors are counted: the first has no moments yet, and all after it are alike. Counting
makes it somewhat slower."""
RESIDENT_AT = range(TENSORS_AT, TENSORS_AT + 4)
"""Updates during which the size of the process is read."""


@dataclass
class MemoryMeter:
    """Made before the model is. `tensors`: bytes alive at the peak of an update, weights and moments included; `resident`: how
    much larger the process was at most than before, with the gaps that its allocator keeps; None where nobody says."""

    device: torch.device
    tensors: int | None = None
    resident: int | None = None
    _before: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if sys.platform.startswith("linux"):
            give_back()
            self._before = _status("VmRSS")

    @contextmanager
    def watching(self, update: int, model: nn.Module, optimiser: torch.optim.Optimizer) -> Iterator[None]:
        """Take update number `update` (from 1) of this process in."""
        held = _held(model, optimiser)
        reads = update in RESIDENT_AT and self._before is not None and _forget_peak()
        with watching_allocations(self.device) if update == TENSORS_AT else nullcontext() as found:
            yield
        if found is not None:
            self.tensors = held + found.most
        size = _status("VmHWM") if reads else None
        if size is not None and self._before is not None:
            self.resident = max(self.resident or 0, size - self._before)


def foretell(run: Run, device: torch.device, console: Console) -> None:
    """Refuse a run whose updates do not fit into the memory that is free, and say so where they nearly fill it."""
    lines = foretell_training(
        run.architecture, batch=run.batch, length=run.length, plan=run.plan, accumulation=run.accumulation, device=device
    )
    for line in lines:
        console.out(line, highlight=False)


def _held(model: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Bytes of weights and of the optimiser's state."""
    moments = [x for state in optimiser.state.values() for x in state.values() if isinstance(x, Tensor)]
    return sum(x.nbytes for x in [*model.parameters(), *moments])


def give_back() -> None:
    """Hand free memory back to the system, as far as glibc can, so that it is not taken again unseen."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return


def _forget_peak() -> bool:
    """Let the system count the process's largest size from now on."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return False
    return True


def _status(name: str) -> int | None:
    """Bytes, from the process's own record."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
