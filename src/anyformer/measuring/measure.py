"""Predictions beside measurements: the description's costs against the module that it builds, counted and run.

Exact ones are counted on the whole model, without numbers (`costs.counted`).

What has to be run, on the device: bytes kept for backward, the peak of a training step, and its time, of the whole model
where it fits, else of one block of each kind (`trial`). All in eager mode.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from anyformer.costs.activations import activations
from anyformer.costs.allocated import peak_above
from anyformer.costs.available import free_memory
from anyformer.costs.calibration import calibrated
from anyformer.costs.counted import Comparison, compared, counted, labels, states
from anyformer.costs.counts import located
from anyformer.costs.hardware import Hardware
from anyformer.costs.peak import peak_memory
from anyformer.costs.roofline import step_time
from anyformer.costs.saved import RESIDUAL, kept_by_label
from anyformer.measuring.trial import TrainingStep, Trial, trial_of
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan

STAGES = ("counting FLOPs", "calibrating this machine", "building", "keeping", "training", "timing")
STEPS = 3
"""Timed after those that warm up; the shortest counts."""
KEPT, PEAK = 0.01, 0.05
"""How far kept bytes and peaks may be off."""


@dataclass(frozen=True)
class Measured:
    """All comparisons; `reduced`: which piece of the architecture was run, empty for all; `notes`: what is not compared."""

    title: str
    reduced: str
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether every prediction that must be exact is."""
        return all(one.holds for one in self.comparisons if one.tolerance == 0)

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        rows = [{**asdict(one), "difference": one.difference, "holds": one.holds} for one in self.comparisons]
        return {**asdict(self), "comparisons": rows, "exact": self.exact}


def measure(
    architecture: Architecture,
    *,
    batch: int = 2,
    length: int = 128,
    source_length: int | None = None,
    plan: Plan | None = None,
    device: str | torch.device = "cpu",
    hardware: Callable[[], Hardware] | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Measured:
    """Hold every prediction against the model. `hardware` gives what times are predicted for: by default `device`, calibrated.

    `NotEnoughMemoryError` before any work where not even one block of each kind fits.
    """
    device = torch.device(device)
    shape = Shape(batch=batch, length=length, source=architecture.source_of(length, source_length))
    asked = plan or Plan()
    trial = trial_of(architecture, shape, asked, free_memory(device))
    progress(STAGES[0])
    found = [*counted(architecture, shape, asked)]
    progress(STAGES[1])
    on = calibrated(device=device.type) if hardware is None else hardware()
    resolved = on.resolved(asked)
    found += states(architecture, shape, resolved)
    notes = () if any(one.quantity == "decode state" for one in found) else ("it keeps no decode state",)
    found += run(trial, shape, resolved, device, on, progress)
    title = f"{batch} x {length:,} tokens, {resolved.precision}, on {on.title}"
    return Measured(title, trial.reduced, tuple(found), notes)


def run(
    trial: Trial,
    shape: Shape,
    plan: Plan,
    device: torch.device,
    hardware: Hardware,
    progress: Callable[[str], None],
) -> Iterator[Comparison]:
    """What only a run shows, of the trial's architecture."""
    made = trial.architecture
    progress(STAGES[2])
    step = TrainingStep(made, shape, plan, device)
    progress(STAGES[3])
    kept = kept_by_label(step.model, labels(made, made.cost(shape, plan)), step.loss)
    yield from compared("kept for backward", "B", declared_kept(made, shape, plan), kept, tolerance=KEPT, inner=None)
    step.update()
    progress(STAGES[4])
    source = shape.source or None
    peak = peak_memory(made, batch=shape.batch, length=shape.length, source_length=source, plan=plan)
    yield Comparison("peak of a step", "", "B", peak.total, peak.persistent + peak_above(step.update, device), PEAK)
    progress(STAGES[5])
    predicted = step_time(made, shape, plan, hardware, "train").seconds
    yield Comparison("time of a step", "", "s", predicted, min(_timed(step.update, device) for _ in range(STEPS)), None)


def declared_kept(architecture: Architecture, shape: Shape, plan: Plan) -> dict[str, int]:
    """Bytes kept by component, copies of weights included."""
    find, found = located(architecture.cost(shape, plan)), Counter[str]()
    for each in activations(architecture, shape, plan).tensors:
        at, rest = find(each.path)
        # What a layer keeps beside its branches is of the residual stream; outside of all modules is the loss.
        beside = at.within("branch", RESIDUAL) if at.layer is not None and at.branch is None else at
        found[beside.component or rest.partition(".")[0]] += each.bytes
    return found


def _timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds."""
    began = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
