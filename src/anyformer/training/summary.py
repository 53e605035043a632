"""Predicted beside measured figures of a run: speed, memory, FLOPs, and the share of the peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from anyformer.costs import scaled, step_time
from anyformer.costs.counted import total_flops
from anyformer.costs.kernels import kernels
from anyformer.costs.step import PricedStep
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.training.loss_scale import scale_note
from anyformer.training.measured_hardware import known, remembered
from anyformer.training.memory_meter import MemoryMeter
from anyformer.training.precision import Host
from anyformer.training.priced import counted_flops
from anyformer.training.run import Run

LONG_SECONDS = 60.0
"""Seconds of updates from which five more to calibrate the machine are worth it, if no calibration is remembered."""
OVERHEAD = 20e-6
"""Seconds that a kernel must be predicted to take on average for its speed to be predicted: calling one takes some 10 us of
Python and autograd, which no roofline knows."""


FAR = 1.0
"""The relative difference of a predicted speed from the measured one from which it wants an explanation."""


@dataclass(frozen=True)
class Prediction:
    """A predicted and a measured figure, None where there is none."""

    predicted: float | None
    measured: float | None

    @property
    def difference(self) -> float | None:
        """Relative difference of the prediction from the measurement."""
        return None if self.predicted is None or not self.measured else self.predicted / self.measured - 1


@dataclass(frozen=True)
class Waiting:
    """Seconds that training waited for checkpoints, of all `seconds` of this process since its first update, for `saves` of so
    many `bytes` together, which took `writing` seconds to write."""

    waited: float
    seconds: float
    saves: int
    bytes: int
    writing: float

    def __str__(self) -> str:
        share = self.waited / self.seconds if self.seconds else 0.0
        checkpoints = "1 checkpoint" if self.saves == 1 else f"{self.saves} checkpoints"
        written = f"{scaled(self.bytes)}B written in {self.writing:.2g} s"
        return f"waiting for {checkpoints}: {self.waited:.2g} s, {share:.1%} of the time; {written}"


@dataclass(frozen=True)
class Summary:
    """`memory`: bytes of tensors at the peak of an update; `flops`: FLOPs of an update, with every query-key pair, declared and
    counted.

    `mfu`: model FLOPs utilisation, of the printed peak of a known accelerator, else of that measured when the run began;
    `resident`: largest growth of the process over its size before the model was built, None where the system does not say;
    `waiting`: for checkpoints; `notes`: remarks for the reader.
    """

    tokens_per_second: Prediction
    memory: Prediction
    flops: Prediction
    flops_per_token: float
    mfu: Prediction
    resident: int | None = None
    waiting: Waiting | None = None
    notes: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        figures = {name: getattr(self, name) for name in ("tokens_per_second", "memory", "flops", "mfu")}
        return asdict(self) | {name: asdict(figure) | {"difference": figure.difference} for name, figure in figures.items()}

    def lines(self) -> list[str]:
        """A table in plain text."""
        rows = [("", "predicted", "measured", "difference")]
        rows += [
            _row("tokens per second", self.tokens_per_second, lambda x: f"{x:,.0f}"),
            _row("memory at the peak", self.memory, lambda x: f"{scaled(x)}B"),
            _row("FLOPs per update", self.flops, lambda x: f"{scaled(x)}FLOP"),
            _row("  of the machine's peak", self.mfu, lambda x: f"{x:.1%}"),
        ]
        wide = [max(len(row[i]) for row in rows) for i in range(4)]
        table = [f"{row[0]:<{wide[0]}}" + "".join(f"  {row[i]:>{wide[i]}}" for i in (1, 2, 3)) for row in rows]
        grown = f"memory of the process: {scaled(self.resident or 0)}B more than before the model, including freed memory"
        waiting = [str(self.waiting)] if self.waiting is not None and self.waiting.saves else []
        return [*(line.rstrip() for line in table), *([] if self.resident is None else [grown]), *waiting, *self.notes]


def summarise(
    run: Run,
    update: PricedStep,
    machine: Host,
    rows: Sequence[dict[str, Any]],
    memory: MemoryMeter,
    waiting: Waiting | None = None,
    remarks: Sequence[str] = (),
    ranks: int = 1,
) -> Summary:
    """The summary of a run from its metrics; its speed is that of the median update. `remarks`: on what happened; `ranks`: the
    processes that shared it, of which the first is measured.

    Speed is predicted by the roofline of this machine as calibrated by `anyformer cost --measure`, or here at the end of a run
    of more than a minute; memory by `costs.step`, from `update`; both for eager mode.
    """
    seconds = [row["seconds"] for row in rows if row["kind"] == "train" and row["seconds"] > 0]
    rate = run.tokens / median(seconds) if seconds else None
    flops, peak_bytes = update_figures(update, run.piece, run.accumulation, run.plan)
    assert flops.predicted is not None
    hardware = known(machine.device) if sum(seconds) > LONG_SECONDS else remembered(machine.device)
    expected, notes = None, scale_note(rows)
    if run.plan.compile == "on":
        notes.append("predicted for eager mode; this run was compiled: what that makes of speed and memory is not foretold")
    if ranks > 1:
        notes.append(f"speed and memory are not predicted for a run in {ranks} processes; memory is that of the first one")
    elif hardware is None:
        notes.append("speed is predicted once this machine is calibrated: by anyformer cost NAME --measure, or a longer run")
    elif run.plan.precision.unit not in hardware.peaks:
        notes.append(f"speed is not predicted: this machine was calibrated for {' and '.join(hardware.peaks)}")
    else:
        step = step_time(run.architecture, run.piece, run.plan, hardware, "train", accumulation=run.accumulation)
        if update.seconds:
            notes.append("speed is predicted as if the objective's second model took no time")
        if not run.tuning.everything:
            notes.append("speed is predicted as if every weight learnt")
        kernel = step.seconds / _kernels(run)
        if kernel >= OVERHEAD:
            expected = step.tokens_per_second
            notes += slower(Prediction(expected, rate))
        else:
            notes.append(
                f"speed is not predicted: the model is so small that a kernel takes {kernel * 1e6:.2g} us on average (below "
                f"{OVERHEAD * 1e6:.0f} us), so that the time goes into calling kernels, not into what they compute"
            )
    per_token = flops.predicted / run.tokens
    # The peak was measured in a moment; if the machine was busy then, the run itself shows a higher one.
    peak = max(ranks * machine.rated(run.plan), per_token * (rate or 0))
    return Summary(
        tokens_per_second=Prediction(expected, rate),
        memory=Prediction(peak_bytes if ranks == 1 else None, memory.tensors),
        flops=flops,
        flops_per_token=per_token,
        resident=memory.resident,
        mfu=Prediction(*(None if speed is None else per_token * speed / peak for speed in (expected, rate))),
        waiting=waiting,
        notes=(*remarks, *notes),
    )


def slower(speed: Prediction) -> list[str]:
    """Why a run may be far slower than predicted."""
    if speed.difference is None or speed.difference < FAR:
        return []
    return [
        f"{1 + speed.difference:.2g} times slower than predicted: a prediction counts arithmetic and bytes, neither calls of "
        "small kernels nor other work on this machine; where threads wait for one another, OMP_NUM_THREADS=1 may be faster"
    ]


def _kernels(run: Run) -> int:
    """Number of kernels of an update, as the prediction of its time counts them."""
    return run.accumulation * sum(
        kernel.launches * kernel.layers for kernel in kernels(run.architecture, run.piece, run.plan, "train")
    )


@lru_cache(maxsize=4)
def update_figures(step: PricedStep, piece: Shape, accumulation: int, plan: Plan) -> tuple[Prediction, int]:
    """FLOPs of an update of some micro-batches, declared and counted, and bytes at its peak: figures that need no update."""
    peak = step.peak(piece, plan, accumulation).total
    passes = step.uses * accumulation
    if step.seconds or not (step.method is None or step.method.tuning.everything):
        found = counted_flops(step, piece, plan)
        return Prediction(passes * step.flops(piece, plan), passes * found), peak
    predicted, measured = piece_flops(step.architecture, piece, plan)
    return Prediction(passes * predicted, passes * measured), peak


@lru_cache(maxsize=16)
def piece_flops(architecture: Architecture, piece: Shape, plan: Plan) -> tuple[float, float]:
    """FLOPs of a micro-batch, forward and backward: as declared, and as counted."""
    declared = architecture.trained_cost(piece, plan).total_flops
    return declared.dense + declared.backward, sum(total_flops(architecture, piece, plan))


def _row(what: str, figure: Prediction, written: Callable[[float], str]) -> tuple[str, str, str, str]:
    shown = ["-" if value is None else written(value) for value in (figure.predicted, figure.measured)]
    difference = figure.difference
    return what, shown[0], shown[1], "-" if difference is None else "0" if difference == 0 else f"{difference:+.1%}"
