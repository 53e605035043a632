"""Predictions beside measurements: the description's costs against the module that it builds, counted and run.

Parameters, FLOPs and decode state are counted on the whole model, without numbers (`costs.counted`).

Bytes saved for backward, the peak of a training step and its time are measured on the device, of the whole model where it fits,
else of one block of each kind (`trial`). All in eager mode.
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
from anyformer.costs.counted import CountComparison, compared, counted, labels, states
from anyformer.costs.counts import located
from anyformer.costs.hardware import Hardware
from anyformer.costs.peak import peak_memory
from anyformer.costs.roofline import step_time
from anyformer.costs.saved import RESIDUAL
from anyformer.costs.saved.measured import saved_by_label
from anyformer.measuring.trial import MeasuredArchitecture, TrainingStep, trial_of
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan

STAGES = ("counting FLOPs", "calibrating this machine", "building", "saved tensors", "training", "timing")
STEPS = 3
"""Timed steps, after those that warm up; the shortest counts."""
SAVED, PEAK = 0.01, 0.05
"""Tolerances of saved bytes and of peaks."""


@dataclass(frozen=True)
class Measurement:
    """All comparisons; `reduced`: the piece of the architecture that ran, empty for all; `notes`: quantities not compared."""

    title: str
    reduced: str
    comparisons: tuple[CountComparison, ...]
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether every prediction with tolerance 0 is exact."""
        return all(comparison.holds for comparison in self.comparisons if comparison.tolerance == 0)

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        rows = [{**asdict(row), "difference": row.difference, "holds": row.holds} for row in self.comparisons]
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
) -> Measurement:
    """Compare every prediction with the model; times are predicted for `hardware`, by default the calibrated `device`.

    `NotEnoughMemoryError` before any work where not even one block of each kind fits.
    """
    device = torch.device(device)
    shape = Shape(batch=batch, length=length, source=architecture.source_of(length, source_length))
    plan = plan or Plan()
    trial = trial_of(architecture, shape, plan, free_memory(device))
    progress(STAGES[0])
    comparisons = [*counted(architecture, shape, plan)]
    progress(STAGES[1])
    on = calibrated(device=device.type) if hardware is None else hardware()
    resolved = on.resolved(plan)
    decode_states = [*states(architecture, shape, resolved)]
    comparisons += (*decode_states, *run(trial, shape, resolved, device, on, progress))
    title = f"{batch} x {length:,} tokens, {resolved.named}, on {on.title}"
    return Measurement(title, trial.reduced, tuple(comparisons), () if decode_states else ("it keeps no decode state",))


def run(
    trial: MeasuredArchitecture,
    shape: Shape,
    plan: Plan,
    device: torch.device,
    hardware: Hardware,
    progress: Callable[[str], None],
) -> Iterator[CountComparison]:
    """Comparisons with a run of the trial's architecture."""
    made = trial.architecture
    progress(STAGES[2])
    step = TrainingStep(made, shape, plan, device)
    progress(STAGES[3])
    saved = saved_by_label(step.model, labels(made, made.trained_cost(shape, plan)), step.loss)
    yield from compared("saved for backward", "B", predicted_saved(made, shape, plan), saved, tolerance=SAVED, inner=None)
    step.update()
    progress(STAGES[4])
    source = shape.source or None
    peak = peak_memory(made, batch=shape.batch, length=shape.length, source_length=source, plan=plan)
    yield CountComparison("peak of a step", "", "B", peak.total, peak.persistent + peak_above(step.update, device), PEAK)
    progress(STAGES[5])
    predicted = step_time(made, shape, plan, hardware, "train").seconds
    yield CountComparison("time of a step", "", "s", predicted, min(timed(step.update, device) for _ in range(STEPS)), None)


def predicted_saved(architecture: Architecture, shape: Shape, plan: Plan) -> dict[str, int]:
    """Bytes saved by component, copies of weights included."""
    find, sizes = located(architecture.trained_cost(shape, plan)), Counter[str]()
    for tensor in activations(architecture, shape, plan).tensors:
        at, rest = find(tensor.path)
        # Tensors of a layer beside its branches are of the residual stream; outside of all modules is the loss.
        owner = at.within("branch", RESIDUAL) if at.layer is not None and at.branch is None else at
        sizes[owner.component or rest.partition(".")[0]] += tensor.bytes
    return sizes


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call."""
    began = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
