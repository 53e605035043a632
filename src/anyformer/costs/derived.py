"""How memory, decode state and time of a sheet follow from parameters and FLOPs, with their numbers filled in."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from math import isclose

from anyformer.costs.counts import located
from anyformer.costs.figures import NOTHING, Figure, count, flops, scaled, seconds, size
from anyformer.costs.kernel import Mode
from anyformer.costs.memory import states_of
from anyformer.costs.page import AT, shown
from anyformer.costs.roofline import KernelTime, StepTime
from anyformer.costs.rows import FigureRow, Section
from anyformer.costs.sheet import STEPS, CostSheet
from anyformer.costs.traceable import traceable
from anyformer.operations.elementwise import ACTIVATED, GATED, ROTATED, SCORE, THRESHOLDED

LONGEST = 6
"""Number of operations whose time is shown."""
ELEMENTWISE: Mapping[str, str] = {
    "norms": "RMSNorm 4 n + 2 of n features, LayerNorm 7 n + 2, less what it leaves out",
    "rotary": f"{ROTATED} of each rotated feature of queries and keys",
    "softmax": f"{SCORE} of each score",
    "activations": f"{ACTIVATED} of each feature, {GATED} where a gate multiplies, and {THRESHOLDED} where a threshold acts",
    "residual": "1 of each feature that a branch adds",
}


def derived(sheet: CostSheet, modes: Sequence[Mode], only: Container[str] | None = None) -> Iterator[Section]:
    """A section for each kind of cost in these modes; `only`: of these components."""
    sheets = {mode: sheet.of(mode) for mode in modes if mode in sheet.modes}
    if only is None:
        work = next(iter(sheets.values())).elementwise.items()
        rows = (FigureRow(f"{kind}: {ELEMENTWISE[kind]}", (flops(counts.dense), flops(counts.exact))) for kind, counts in work)
        yield Section("Element-wise operations, forward", ("dense", "exact"), tuple(rows))
        if "train" in sheets:
            yield _step(sheets["train"])
    if "train" in sheets and traceable():
        if only is None:
            yield _training(sheets["train"])
        yield from _not_empty(_activations(sheets["train"], only))
    if "decode" in sheets:
        yield from _not_empty(_state(sheet.of("prefill"), only))
    for mode, priced in sheets.items():
        if priced.time is not None:
            yield from _not_empty(_time(mode, priced.time, only))


def _not_empty(section: Section) -> Iterator[Section]:
    """The section, unless its sum is its only row."""
    if len(section.rows) > 1:
        yield section


def _step(sheet: CostSheet) -> Section:
    forward, backward = sheet.flops.forward, sheet.flops.backward
    recomputed = sheet.executed.total - sheet.flops.total.exact
    rows = (
        _row(f"backward, of inputs and of weights, dense: 2 x {forward.dense:,}", count(backward.dense)),
        _row(f"exact: 2 x {forward.exact:,}", count(backward.exact)),
        _row("executed on top: scores and checkpointed layers, recomputed", count(recomputed)),
    )
    return Section("FLOPs of a training step", ("",), rows)


def _training(sheet: CostSheet) -> Section:
    """Bytes per parameter (Rajbhandari et al. 2020), and memory at the peak by purpose."""
    N, states, memory = sheet.params.total, states_of(sheet.plan.precision), sheet.memory
    formulas = {
        "weights": f"weights in fp32: {states.weights} x {N:,}",
        "gradients": f"gradients in fp32 of the weights passed by then, at most {states.gradients} x {N:,}",
        "optimiser state": f"AdamW's two moments in fp32: {states.optimiser} x {N:,}"
        if sheet.optimiser is None
        else f"what {sheet.optimiser.kind} keeps of each weight, by its shape",
        "copies of weights": f"copies of matrices in {sheet.unit} for products",
        "activations": f"every tensor saved for the backward pass, checkpointing {sheet.plan.checkpointing}",
        "logits and loss": "logits and loss",
        "temporaries": "tensors of single operations: gradients of activations, the loss",
    }
    rows = [_row(formulas[name], size(number)) for name, number in memory.named.items()]
    return Section(
        f"Memory of training at its peak ({AT[sheet.peak.at]})", ("",), (*rows, _row("together", size(memory.total)))
    )


def _activations(sheet: CostSheet, only: Container[str] | None) -> Section:
    """Every tensor that a forward pass saves, at the first part that saves it, all layers together."""
    sizes: dict[str, list[int]] = {}
    find = located(sheet.architecture.trained_cost(sheet.shape, sheet.plan))
    for name, number in sheet.activations.by_name.items():
        at, rest = find(name)
        if only is None or at.component in only:
            sizes.setdefault(".".join(word for word in (at.component, *at.part, rest) if word), []).append(number)
    rows = [FigureRow(name, (count(len(numbers)), size(sum(numbers)))) for name, numbers in sizes.items()]
    rows.append(FigureRow("together", (NOTHING, size(sum(map(sum, sizes.values())))), strong=True))
    return Section("Saved for the backward pass, logits and loss included", ("tensors", "together"), tuple(rows))


def _state(sheet: CostSheet, only: Container[str] | None) -> Section:
    state = sheet.state
    B, T = state.batch, state.context
    rows, total = [], 0
    for memory in state.memories:
        if only is None or memory.component in only:
            full = memory.grows == "every token"
            per = f"{memory.per_token:,} a token x {T:,} tokens" if full else f"{memory.bytes // B:,} a sequence"
            rows.append(_row(f"{shown(memory.name)}, grows {memory.grows}: {B} x {per}", size(memory.bytes)))
            total += memory.bytes
    if only is None:
        rows.append(_row(f"the position of each token: 8 x {B} x {T:,}", size(state.positions)))
        total += state.positions
    return Section(f"Decode state after {T:,} tokens, in {sheet.unit}", ("",), (*rows, _row("together", size(total))))


def _time(mode: Mode, time: StepTime, only: Container[str] | None) -> Section:
    """The longest operations by the roofline, or all of some components."""
    operations = sorted(time.operations, key=lambda operation: -operation.seconds)
    operations = [operation for operation in operations if only is None or operation.component in only]
    longest = operations[:LONGEST] if only is None else operations
    rows = [_row(f"{operation.name}: {_bound(operation, time)}", seconds(operation.seconds)) for operation in longest]
    if len(operations) > len(longest):
        rest = sum(operation.seconds for operation in operations[LONGEST:])
        rows.append(_row(f"{len(operations) - LONGEST} others", seconds(rest)))
    together = _row("together", seconds(sum(operation.seconds for operation in operations)))
    return Section(f"Time of a {STEPS[mode]}: the longer of FLOPs and bytes at the rates reached", ("",), (*rows, together))


def _bound(operation: KernelTime, time: StepTime) -> str:
    """The formula of the bound that takes an operation's time; of kernels with several bounds, the one that takes most."""
    shares = time.hardware.efficiency
    if operation.bound == "launch":
        return "the launch of its kernels"
    if operation.bound == "compute":
        share = shares.attention if operation.unit == "attention" else shares.matrix
        work, unit, rate = operation.executed, "FLOP", time.hardware.peak(operation.number)
    else:
        share, work, unit, rate = shares.of_bandwidth(operation.unit), operation.bytes, "B", time.hardware.bandwidth
    if not isclose(operation.seconds, work / (rate * share), rel_tol=1e-3):
        both = f"{scaled(operation.executed)}FLOP and {scaled(operation.bytes)}B"
        return f"{both} in several kernels, mostly bound by {operation.bound}"
    return f"{scaled(work)}{unit} / ({scaled(rate)}{unit}/s x {share})"


def _row(name: str, figure: Figure) -> FigureRow:
    return FigureRow(name, (figure,), strong=name == "together")
