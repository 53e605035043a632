"""What trials will take, before they begin: memory by the sheet, time by the roofline of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from anyformer.costs import step_time
from anyformer.costs.hardware import Hardware
from anyformer.costs.kernels import kernels
from anyformer.costs.memory_check import training_bytes
from anyformer.training import Run
from anyformer.training.measured_hardware import known
from anyformer.training.priced import step_of
from anyformer.training.summary import OVERHEAD

PROCESS = {"cpu": 400_000_000, "cuda": 600_000_000}
"""Bytes of a process beside its step: the interpreter and torch; of a GPU's context."""


def predicted_bytes(run: Run, device: str = "cpu") -> int:
    """Bytes that a trial takes at its peak, of the machine or of the accelerator."""
    step = training_bytes(step_of(run), batch=run.batch, length=run.length, plan=run.plan, accumulation=run.accumulation)
    return step + PROCESS.get(device, max(PROCESS.values()))


def predicted_seconds(run: Run, hardware: Hardware) -> float:
    """Seconds of the updates of a trial in eager mode: the roofline, but at least as long as calling the kernels takes."""
    assert run.steps is not None
    step = step_time(run.architecture, run.piece, run.plan, hardware, "train", accumulation=run.accumulation)
    called = sum(kernel.launches * kernel.layers for kernel in kernels(run.architecture, run.piece, run.plan, "train"))
    return run.steps * max(step.seconds, OVERHEAD * run.accumulation * called)


def this_machine(threads: int) -> Hardware:
    """This machine with so many threads, measured in about five seconds if nothing is remembered."""
    with with_threads(threads):
        return known(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Within, torch computes with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
