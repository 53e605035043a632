"""Which decode step a text is generated with."""

from __future__ import annotations

from anyformer.generation.compiled import LONG_JOB, compiled
from anyformer.generation.decode import Step
from anyformer.generation.native.decode import natively, unavailable
from anyformer.generation.recorded import MULTIPLE, RecordedDecode, StepRun, as_recorded


def best_run() -> StepRun:
    """How recorded steps are computed on this machine: from tables in C++ where a C++ compiler is."""
    return as_recorded if unavailable() else natively


def stepper(max_tokens: int, compile: bool | None) -> tuple[Step, int]:
    """The decode step to use, recorded, and the slots by which the visible part of the state should grow.

    `compile`: by torch's compiler, or by torch's own calls. None: from a table in C++ where a C++ compiler is, else compiled
    where the job is long enough to recover the time.
    """
    if compile is None and not unavailable():
        return RecordedDecode(run=natively), MULTIPLE
    compiles = max_tokens >= LONG_JOB if compile is None else compile
    return (RecordedDecode(compiled) if compiles else RecordedDecode()), MULTIPLE
