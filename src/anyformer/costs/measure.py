"""Predictions beside measurements: the description's costs against the module that it builds, counted and run.

Exact ones are measured on the whole model, on the meta device, which runs every operation without numbers and so without
memory: parameters, decode state, and FLOPs by PyTorch's counter. There every product is dispatched as itself, so every
query-key pair is counted, forward and backward: the `dense` convention, whatever the kernel. A device's fused kernels
report otherwise: torch's attention for CPUs and its grouped products nothing, flash attention on CUDA a backward pass of
2.5 forward ones, for it computes scores again (`executed`). A capacity that holds in training only pads experts' rows on top
of what is declared, so FLOPs are those of a call in evaluation.

What has to be run, on the device: bytes kept for backward, the peak of a training step, and its time, of the whole model
where it fits, else of one block of each kind (`trial`). All in eager mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from anyformer.costs.activations import activations
from anyformer.costs.allocated import peak_above
from anyformer.costs.available import free_memory
from anyformer.costs.calibration import calibrated
from anyformer.costs.counts import STACKS, by_component, component
from anyformer.costs.hardware import Hardware
from anyformer.costs.peak import peak_memory
from anyformer.costs.roofline import step_time
from anyformer.costs.saved import kept_by_label
from anyformer.costs.trial import TrainingStep, Trial, examples, trial_of
from anyformer.model import Architecture, build
from anyformer.parts.call.state import Slots
from anyformer.plan import Plan
from anyformer.tally import Shape
from anyformer.tape import Tape

STAGES = ("counting FLOPs", "calibrating this machine", "building", "keeping", "training", "timing")
STEPS = 3
"""Timed after those that warm up; the shortest counts."""
KEPT, PEAK = 0.01, 0.05
"""How far kept bytes and peaks may be off."""


@dataclass(frozen=True)
class Comparison:
    """One quantity, of a component or (``) of all; `tolerance`: how far it may be off, 0 exactly equal, None any."""

    quantity: str
    component: str
    unit: str
    predicted: float
    measured: float
    tolerance: float | None

    @property
    def difference(self) -> float:
        """Of the prediction, relative to what was measured; 0 where both are 0."""
        return 0.0 if self.predicted == self.measured else self.predicted / self.measured - 1 if self.measured else float("inf")

    @property
    def holds(self) -> bool:
        return self.tolerance is None or abs(self.difference) <= self.tolerance


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


def counted(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[Comparison]:
    """Parameters and FLOPs of the whole model, forward by component; the counter has no place for a tied table's backward."""
    tally = architecture.cost(shape, plan)
    model = build(architecture, plan, device="meta").eval()
    there = _sums((name, parameter.numel()) for name, parameter in model.named_parameters())
    yield from _beside("parameters", "", _sums((name, weight.count) for name, weight in tally.weights.items()), there)
    given = [x.to("meta") for x in examples(architecture, shape)]
    with FlopCounterMode(display=False) as counter:
        output = model(*given)
        forward = counter.get_total_flops()
        modules = _parts({name: sum(flops.values()) for name, flops in counter.get_flop_counts().items()})
        output.float().sum().backward()
    declared = _sums((name, flops.dense) for name, flops in tally.flops.items())
    yield from _beside("forward FLOPs", "FLOPs", declared, modules, whole=forward)
    backward = counter.get_total_flops() - forward
    yield Comparison("backward FLOPs", "", "FLOPs", tally.total_flops.backward, backward, 0)


def states(architecture: Architecture, shape: Shape, plan: Plan) -> Iterator[Comparison]:
    """Decode state with room for the length, as allocated; nothing where nothing is generated."""
    tally = architecture.cost(
        Shape(batch=shape.batch, length=1, capacity=shape.length, source=shape.source), plan
    )  # room for all, whatever is asked first
    if architecture.decoder is None or architecture.latents is not None or tally.breaks("stepwise"):
        return
    dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    state = build(architecture, plan, device="meta").state(shape.batch, shape.length, source=shape.source, dtype=dtype)
    predicted = {**_sums(tally.state_bytes.items()), "positions": Slots.bytes(*state.slots.positions.shape)}
    layers = [(f"decoder.layers.{i}.{name}", each.nbytes) for i, held in enumerate(state.layers) for name, each in held.items()]
    found = {**_sums(layers), "positions": state.slots.nbytes}
    yield from _beside("decode state", "B", predicted, found, whole=state.nbytes)


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
    kept = kept_by_label(step.model, _label, step.loss)
    yield from _beside("kept for backward", "B", declared_kept(made, shape, plan), kept, tolerance=KEPT, inner=None)
    step.update()
    progress(STAGES[4])
    source = shape.source or None
    peak = peak_memory(made, batch=shape.batch, length=shape.length, source_length=source, plan=plan)
    yield Comparison("peak of a step", "", "B", peak.total, peak.stays + peak_above(step.update, device), PEAK)
    progress(STAGES[5])
    predicted = step_time(made, shape, plan, hardware, "train").seconds
    yield Comparison("time of a step", "", "s", predicted, min(_timed(step.update, device) for _ in range(STEPS)), None)


def declared_kept(architecture: Architecture, shape: Shape, plan: Plan) -> dict[str, int]:
    """Bytes kept by component, copies of weights included; those of a tied table are made by the head."""
    tape = Tape(plan, shape)
    architecture.keeps(tape)
    kept = activations(architecture, shape, plan).by_name
    casts = [("head" if name.endswith("embedding.weight") else name, held.bytes) for name, held in tape.casts.items()]
    return _sums([*kept.items(), *casts])


def _beside(
    quantity: str,
    unit: str,
    predicted: Mapping[str, int],
    measured: Mapping[str, int],
    *,
    whole: int | None = None,
    tolerance: float = 0,
    inner: float | None = 0,
) -> Iterator[Comparison]:
    """The sum, then every component that either knows; `whole`: what was measured of all, where that is known apart."""
    everything = sum(measured.values()) if whole is None else whole
    yield Comparison(quantity, "", unit, sum(predicted.values()), everything, tolerance)
    for name in dict.fromkeys([*predicted, *measured]):
        if predicted.get(name) or measured.get(name):
            yield Comparison(quantity, name, unit, predicted.get(name, 0), measured.get(name, 0), inner)


def _sums(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    return by_component(sizes, int)


def _label(module: str) -> str:
    """The component that a module is, else empty; outside of all modules is the loss.

    What a block keeps beside its parts are the gains of its steps.
    """
    words = module.split(".")
    if words[0] not in STACKS:
        return "" if len(words) > 1 else words[0] or "loss"
    if words[1:2] == ["layers"]:
        return f"{words[0]}.gain" if len(words) == 3 else component(module) if len(words) == 4 else ""
    return module if len(words) == 2 else ""


def _parts(modules: Mapping[str, int]) -> dict[str, int]:
    """FLOPs by component, from those by module, each counted with all below it."""
    named = {name.partition(".")[2]: flops for name, flops in modules.items() if name.startswith("Transformer.")}
    # A block is counted with its parts, and computes no product of its own.
    return _sums((name, flops) for name, flops in named.items() if _label(name) and _label(name) != _block(name))


def _block(module: str) -> str:
    return f"{module.partition('.')[0]}.gain"


def _timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds."""
    began = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
