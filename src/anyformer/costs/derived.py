"""How the rest of a sheet follows from parameters and FLOPs: memory, decode state and time, with their numbers filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anyformer.costs.activations import activations
from anyformer.costs.figures import NOTHING, Figure, count, flops, scaled, seconds, size
from anyformer.costs.memory import ADAM_FP32
from anyformer.costs.page import STEP
from anyformer.costs.roofline import LAYER, Operation, StepTime
from anyformer.costs.sheet import CostSheet
from anyformer.costs.text import Row, Section
from anyformer.costs.work import Mode
from anyformer.parts.elementwise import ACTIVATED, GATED, ROTATED, SCORE

LONGEST = 6
"""Operations whose time is worked out."""
ELEMENTWISE: Mapping[str, str] = {
    "norms": "4 n + 2 of n features, gain included",
    "rotary": f"{ROTATED} of each rotated feature of queries and keys",
    "softmax": f"{SCORE} of each score",
    "activations": f"{ACTIVATED} of each feature, and {GATED} where a gate multiplies",
    "residual": "1 of each feature that a branch adds",
}


def derived(sheet: CostSheet, modes: Sequence[Mode]) -> Iterator[Section]:
    """A section for each kind of cost that these modes have."""
    sheets = {mode: sheet.of(mode) for mode in modes if mode in sheet.modes}
    first = next(iter(sheets.values()))
    work = first.elementwise.items()
    rows = (Row(f"{kind}: {ELEMENTWISE[kind]}", (flops(each.dense), flops(each.exact))) for kind, each in work)
    yield Section("Element-wise operations, forward", ("dense", "exact"), tuple(rows))
    if "train" in sheets:
        yield _step(sheets["train"])
        yield _training(sheets["train"])
        yield _activations(sheets["train"])
    if "decode" in sheets:
        yield _state(sheet.of("prefill"))
    for mode, each in sheets.items():
        if each.time is not None:
            yield _time(mode, each.time)


def _step(sheet: CostSheet) -> Section:
    forward, run = sheet.flops.forward, sheet.executed
    back = sheet.flops.backward
    again = run.total - sheet.flops.total.exact
    rows = (
        _row(f"backward = 2 x forward, for inputs and for weights: dense 2 x {forward.dense:,}", count(back.dense)),
        _row(f"exact 2 x {forward.exact:,}", count(back.exact)),
        _row("executed beyond the exact ones: scores computed again, and what checkpointing does not keep", count(again)),
    )
    return Section("FLOPs of a training step", ("",), rows)


def _training(sheet: CostSheet) -> Section:
    """Bytes per parameter (Rajbhandari et al. 2020), and what the parts keep."""
    N, states = sheet.params.total, ADAM_FP32
    rows = [
        _row(f"weights in fp32: {states.weights} x {N:,}", size(states.weights * N)),
        _row(f"gradients: {states.gradients} x {N:,}", size(states.gradients * N)),
        _row(f"Adam's two moments: {states.optimiser} x {N:,}", size(states.optimiser * N)),
    ]
    memory = sheet.memory
    rows += [
        _row(f"copies of matrices in {sheet.precision} for products", size(memory.copies)),
        _row(
            f"activations: every tensor kept for backward, checkpointing {sheet.plan.checkpointing}", size(memory.activations)
        ),
        _row("logits and loss", size(memory.logits)),
        _row("together", size(memory.total)),
    ]
    rows.append(_row(f"peak of a step without accumulation, at the {sheet.peak.at}", size(sheet.peak.total)))
    return Section("Memory of training", ("",), tuple(rows))


def _activations(sheet: CostSheet) -> Section:
    """Every tensor that a forward pass keeps, at the first part that keeps it, those of all layers together."""
    kept = activations(sheet.architecture, sheet.shape, sheet.plan)
    sizes: dict[str, list[int]] = {}
    for name, each in kept.by_name.items():
        sizes.setdefault(LAYER.sub("", name), []).append(each)
    rows = [Row(name, (count(len(each)), size(sum(each)))) for name, each in sizes.items()]
    rows.append(Row("together", (NOTHING, size(kept.kept + kept.loss)), strong=True))
    return Section("Kept for the backward pass, logits and loss included", ("tensors", "together"), tuple(rows))


def _state(sheet: CostSheet) -> Section:
    state = sheet.state
    B, T = state.batch, state.context
    rows = []
    for each in state.memories:
        grown = (
            f"{each.per_token:,} a token x {T:,} tokens" if each.grows == "every token" else f"{each.bytes // B:,} a sequence"
        )
        rows.append(_row(f"{each.name}, grows {each.grows}: {B} x {grown}", size(each.bytes)))
    rows.append(_row(f"the book of positions: 8 x {B} x {T:,}", size(state.book)))
    return Section(f"Decode state after {T:,} tokens, {sheet.precision}", ("",), (*rows, _row("together", size(state.total))))


def _time(mode: Mode, time: StepTime) -> Section:
    """The longest operations by the roofline."""
    on, reached = time.hardware, time.hardware.efficiency
    longest = sorted(time.operations, key=lambda operation: -operation.seconds)[:LONGEST]
    rows = [_row(f"{operation.name}: {_wait(operation, time)}", seconds(operation.seconds)) for operation in longest]
    rest = time.seconds - sum(operation.seconds for operation in longest)
    rows.append(_row(f"{len(time.operations) - len(longest)} others", seconds(rest)))
    title = (
        f"Time of a {STEP[mode]}: the longer of FLOPs / ({scaled(on.peak(time.precision))}FLOP/s x {reached.matrix} or, in "
        f"attention, {reached.attention}) and bytes / ({scaled(on.bandwidth)}B/s x {reached.memory})"
    )
    return Section(title, ("",), (*rows, _row("together", seconds(time.seconds))))


def _wait(operation: Operation, time: StepTime) -> str:
    """What most of its time waits for."""
    reached = time.hardware.efficiency
    if operation.bound == "compute":
        used = reached.attention if operation.unit == "attention" else reached.matrix
        return f"{scaled(operation.executed)}FLOP / ({scaled(time.hardware.peak(time.precision))}FLOP/s x {used})"
    if operation.bound == "memory":
        return f"{scaled(operation.bytes)}B / ({scaled(time.hardware.bandwidth)}B/s x {reached.memory})"
    return "the launch of its kernels"


def _row(name: str, figure: Figure) -> Row:
    return Row(name, (figure,), strong=name == "together")
