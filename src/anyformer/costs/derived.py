"""How the rest of a sheet follows from parameters and FLOPs: memory, decode state and time, with their numbers filled in."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from anyformer.costs.counts import located
from anyformer.costs.figures import NOTHING, Figure, count, flops, scaled, seconds, size
from anyformer.costs.kernels import Mode
from anyformer.costs.memory import ADAM
from anyformer.costs.page import AT, shown
from anyformer.costs.roofline import KernelTime, StepTime
from anyformer.costs.rows import Row, Section
from anyformer.costs.sheet import STEPS, CostSheet
from anyformer.operations.elementwise import ACTIVATED, GATED, ROTATED, SCORE

LONGEST = 6
"""Operations whose time is worked out."""
ELEMENTWISE: Mapping[str, str] = {
    "norms": "4 n + 2 of n features, gain included",
    "rotary": f"{ROTATED} of each rotated feature of queries and keys",
    "softmax": f"{SCORE} of each score",
    "activations": f"{ACTIVATED} of each feature, and {GATED} where a gate multiplies",
    "residual": "1 of each feature that a branch adds",
}


def derived(sheet: CostSheet, modes: Sequence[Mode], only: Container[str] | None = None) -> Iterator[Section]:
    """A section for each kind of cost that these modes have; `only`: of these components."""
    sheets = {mode: sheet.of(mode) for mode in modes if mode in sheet.modes}
    if only is None:
        work = next(iter(sheets.values())).elementwise.items()
        rows = (Row(f"{kind}: {ELEMENTWISE[kind]}", (flops(each.dense), flops(each.exact))) for kind, each in work)
        yield Section("Element-wise operations, forward", ("dense", "exact"), tuple(rows))
        if "train" in sheets:
            yield _step(sheets["train"])
            yield _training(sheets["train"])
    if "train" in sheets:
        yield from _some(_activations(sheets["train"], only))
    if "decode" in sheets:
        yield from _some(_state(sheet.of("prefill"), only))
    for mode, each in sheets.items():
        if each.time is not None:
            yield from _some(_time(mode, each.time, only))


def _some(section: Section) -> Iterator[Section]:
    """Nothing of a section that has nothing but its sum."""
    if len(section.rows) > 1:
        yield section


def _step(sheet: CostSheet) -> Section:
    forward, run = sheet.flops.forward, sheet.executed
    back = sheet.flops.backward
    again = run.total - sheet.flops.total.exact
    rows = (
        _row(f"backward, of inputs and of weights, dense: 2 x {forward.dense:,}", count(back.dense)),
        _row(f"exact: 2 x {forward.exact:,}", count(back.exact)),
        _row("executed on top: scores computed again, and what checkpointing does not keep", count(again)),
    )
    return Section("FLOPs of a training step", ("",), rows)


def _training(sheet: CostSheet) -> Section:
    """Bytes per parameter (Rajbhandari et al. 2020), and what is held at the peak."""
    N, states, held = sheet.params.total, ADAM, sheet.memory
    said = {
        "weights": f"weights in fp32: {states.weights} x {N:,}",
        "gradients": f"gradients in fp32 of the weights passed by then, at most {states.gradients} x {N:,}",
        "optimiser state": f"AdamW's two moments in fp32: {states.optimiser} x {N:,}",
        "copies of weights": f"copies of matrices in {sheet.precision} for products",
        "activations": f"every tensor kept for the backward pass, checkpointing {sheet.plan.checkpointing}",
        "logits and loss": "logits and loss",
        "temporaries": "what single operations need for a moment: gradients of activations, the loss",
    }
    rows = [_row(said[name], size(number)) for name, number in held.named.items()]
    return Section(f"Memory of training {AT[sheet.peak.at]}", ("",), (*rows, _row("together", size(held.total))))


def _activations(sheet: CostSheet, only: Container[str] | None) -> Section:
    """Every tensor that a forward pass keeps, at the first part that keeps it, those of all layers together."""
    sizes: dict[str, list[int]] = {}
    find = located(sheet.architecture.cost(sheet.shape, sheet.plan))
    for name, each in sheet.kept.by_name.items():
        at, rest = find(name)
        if only is None or at.component in only:
            sizes.setdefault(".".join(word for word in (at.component, *at.part, rest) if word), []).append(each)
    rows = [Row(name, (count(len(each)), size(sum(each)))) for name, each in sizes.items()]
    rows.append(Row("together", (NOTHING, size(sum(map(sum, sizes.values())))), strong=True))
    return Section("Kept for the backward pass, logits and loss included", ("tensors", "together"), tuple(rows))


def _state(sheet: CostSheet, only: Container[str] | None) -> Section:
    state = sheet.state
    B, T = state.batch, state.context
    rows, whole = [], 0
    for each in state.memories:
        if only is None or each.component in only:
            grows = each.grows == "every token"
            per = f"{each.per_token:,} a token x {T:,} tokens" if grows else f"{each.bytes // B:,} a sequence"
            rows.append(_row(f"{shown(each.name)}, grows {each.grows}: {B} x {per}", size(each.bytes)))
            whole += each.bytes
    if only is None:
        rows.append(_row(f"the position of each token: 8 x {B} x {T:,}", size(state.book)))
        whole += state.book
    return Section(f"Decode state after {T:,} tokens, in {sheet.precision}", ("",), (*rows, _row("together", size(whole))))


def _time(mode: Mode, time: StepTime, only: Container[str] | None) -> Section:
    """The longest operations by the roofline, or all of some components."""
    found = sorted(time.operations, key=lambda operation: -operation.seconds)
    found = [each for each in found if only is None or each.component in only]
    longest = found[:LONGEST] if only is None else found
    rows = [_row(f"{operation.name}: {_wait(operation, time)}", seconds(operation.seconds)) for operation in longest]
    if len(found) > len(longest):
        rest = sum(operation.seconds for operation in found[LONGEST:])
        rows.append(_row(f"{len(found) - LONGEST} others", seconds(rest)))
    together = _row("together", seconds(sum(operation.seconds for operation in found)))
    return Section(f"Time of a {STEPS[mode]}: the longer of FLOPs and bytes by what is reached", ("",), (*rows, together))


def _wait(operation: KernelTime, time: StepTime) -> str:
    """What most of its time waits for."""
    reached = time.hardware.efficiency
    if operation.bound == "compute":
        used = reached.attention if operation.unit == "attention" else reached.matrix
        return f"{scaled(operation.executed)}FLOP / ({scaled(time.hardware.peak(time.precision))}FLOP/s x {used})"
    if operation.bound == "memory":
        return f"{scaled(operation.bytes)}B / ({scaled(time.hardware.bandwidth)}B/s x {reached.of_bandwidth(operation.unit)})"
    return "the launch of its kernels"


def _row(name: str, figure: Figure) -> Row:
    return Row(name, (figure,), strong=name == "together")
