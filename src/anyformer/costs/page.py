"""A cost sheet in words: what `anyformer cost` prints of one architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from anyformer.costs.figures import NOTHING, Figure, count, decimal, exact, flops, scaled, seconds, share, size
from anyformer.costs.inference import DecodeState, expected_experts
from anyformer.costs.kernels import Mode
from anyformer.costs.peak import Moment
from anyformer.costs.roofline import KernelTime, StepTime
from anyformer.costs.rows import Row, Section
from anyformer.costs.sheet import STEPS, CostSheet
from anyformer.model import Architecture
from anyformer.operations import Flops

HOLDS: Mapping[Mode, str] = {
    "train": "a training step",
    "prefill": "weights and the decode state of these prompts",
    "decode": "weights and this decode state",
}
REMEDIES: Mapping[Mode, str] = {
    "train": "see `anyformer plan NAME --gpus 8`, or `--finetune`",
    "prefill": "see `anyformer plan NAME --serve`",
    "decode": "see `anyformer plan NAME --serve`",
}
NOT_SHOWN = Figure("-")
"""Of a share of the peak, all pairs counted, where it would be more than all of it."""
SMALL = 0.005
"""Share of the time below which operations share a line."""
AT: Mapping[Moment, str] = {
    "loss": "when most is held, at the loss",
    "backward": "when most is held, on the way back",
    "update": "when most is held, at the update",
}


def page(sheet: CostSheet, modes: Sequence[Mode], *, beside: bool = False) -> tuple[Section, ...]:
    """What there is to say about some modes; of a single one on hardware first its time, its memory, and where its time goes.

    `beside`: for `side_by_side`.
    """
    sheets = {mode: sheet.of(mode) for mode in modes if mode in sheet.modes}
    model = [_parameters_beside(sheet) if beside else _parameters(sheet), _flops(sheets)]
    held = [_training(sheets["train"])] if "train" in sheets else []
    if sheets.keys() - {"train"}:
        held += _inference(sheet.of("prefill"))
    if sheet.hardware is None:
        return (*model, *held)
    if len(sheets) > 1:
        return (*model, *held, _times(sheets))
    # A decoding step asks for its state first, of which weights in other formats are no part.
    asked = held[1:] + held[:1] if "decode" in sheets else held
    return (_times(sheets), *asked, *map(_operations, sheets.values()), *model)


def title(sheet: CostSheet) -> str:
    """The call, and what it runs on."""
    lengths = f"{sheet.length:,} tokens" + (f" from a source of {sheet.source:,}" if sheet.source else "")
    prefix = f" ({sheet.prefix:,} of prefix)" if sheet.prefix else ""
    call = f"batch {sheet.batch:,} x {lengths}{prefix}, {sheet.precision}"
    on = sheet.hardware
    return call if on is None else f"{call}, on {on.title}"


def reached(sheet: CostSheet) -> str:
    """The hardware's peaks, and the shares of them that times count on."""
    on = sheet.hardware
    assert on is not None, "priced on hardware"
    of, peak = on.efficiency, on.peak(sheet.precision)
    return (
        f"counted on: {scaled(peak)}FLOP/s, {of.matrix:.0%} of it in products and {of.attention:.0%} in attention; "
        f"{scaled(on.bandwidth)}B/s, {of.memory:.0%} of it"
    )


def longest(architecture: Architecture) -> int | None:
    """The longest input that all position tables cover; None without limit. A latent array's own table limits nothing."""
    reading = [stack for name, stack in architecture.stacks.items() if architecture.latents is None or name == "encoder"]
    return min((stack.max_length for stack in reading if stack.max_length is not None), default=None)


def warnings(sheet: CostSheet, modes: Sequence[Mode]) -> tuple[str, ...]:
    """What cannot be run as it is priced: positions beyond a table, and what does not fit into the memory of one device."""
    found = [*beyond_tables(sheet.architecture, sheet.length, sheet.source)]
    on = sheet.hardware
    told = [mode for mode in modes if mode in sheet.modes]
    for each in map(sheet.of, told):
        # Prompts and the tokens after them need the same room.
        again = each.mode == "prefill" and "decode" in told
        if on is not None and each.devices > 1 and not again:
            found.append(
                f"one {on.title} has no room for {HOLDS[each.mode]}: {scaled(each.held)}B of {scaled(on.room)}B "
                f"(times are as if it had); {REMEDIES[each.mode]}"
            )
        if each.time is not None and each.time.too_small:
            found.append(f"the {STEPS[each.mode]} is {each.time.too_small}")
    return tuple(found)


def beyond_tables(architecture: Architecture, length: int, source: int = 0) -> Iterator[str]:
    """Where a position table ends before the length that is asked for."""
    for name, stack in architecture.stacks.items():
        reads = source if name == "encoder" and source else length
        latent = name == "decoder" and architecture.latents is not None
        if stack.max_length is not None and stack.max_length < reads and not latent:
            yield f"the {name}'s position table ends at {stack.max_length:,}, so it cannot be run at {reads:,}"


def _parameters(sheet: CostSheet) -> Section:
    """Stored, and used by one token where some experts are not."""
    params = sheet.params
    table = {"total": (params.total, params.active)}
    table |= {shown(name): (number, params.active_by_component[name]) for name, number in params.by_component.items()}
    columns = ("",) if params.active == params.total else ("", "active")
    rows = (Row(name, tuple(map(count, numbers[: len(columns)]))) for name, numbers in table.items())
    return Section("Parameters", columns, tuple(rows))


def _parameters_beside(sheet: CostSheet) -> Section:
    """Both sums, and the components that are more than a thousandth."""
    params = sheet.params
    rows = [Row("total", (count(params.total),)), Row("used by one token", (count(params.active),))]
    rows += [Row(shown(n), (count(each),)) for n, each in params.by_component.items() if each * 1000 > params.total]
    return Section("Parameters", ("",), tuple(rows))


def _flops(sheets: Mapping[Mode, CostSheet]) -> Section:
    """Each convention in a column; of a training step also forward and backward alone."""
    # A training step's forward pass is a prefill.
    told = [mode for mode in sheets if mode != "prefill" or "train" not in sheets]
    rows = [row for mode in told for row in _flops_of(mode, sheets[mode])]
    work = sum(sheets[told[0]].elementwise.values(), Flops())
    rows.append(Row("element-wise operations, forward", (flops(work.dense), flops(work.exact)), detail=True))
    return Section("FLOPs of matrix products", ("dense", "exact", "executed"), tuple(rows))


def _flops_of(mode: Mode, sheet: CostSheet) -> Iterator[Row]:
    model, run, tokens = sheet.flops, sheet.executed, sheet.tokens
    if mode == "train":
        yield Row("forward", _conventions(model.forward.dense, model.forward.exact, run.forward), detail=True)
        yield Row("backward", _conventions(model.backward.dense, model.backward.exact, run.backward), detail=True)
    yield Row(STEPS[mode], _conventions(model.total.dense, model.total.exact, run.total))
    each = _conventions(model.total.dense // tokens, model.total.exact // tokens, run.total // tokens)
    yield Row(f"{STEPS[mode]}, per token", each)


def _conventions(*of: int) -> tuple[Figure, ...]:
    return tuple(map(flops, of))


def _training(sheet: CostSheet) -> Section:
    """What a step holds when it holds most; weights, gradients and both moments of AdamW in fp32."""
    figures = {**sheet.memory.named, "together, the peak of a step": sheet.memory.total}
    rows = [Row(what, (size(number),)) for what, number in figures.items()]
    rows.append(Row("kept from forward to backward", (size(sheet.kept.kept + sheet.kept.loss),)))
    how = f"checkpointing {sheet.plan.checkpointing}"
    return Section(f"Memory of training {AT[sheet.peak.at]}", (how,), (*rows, *_devices(sheet, sheet.held)))


def _devices(sheet: CostSheet, *held: int) -> Iterator[Row]:
    """How many devices have so much memory, all of it spread evenly."""
    if sheet.hardware is not None:
        yield Row("accelerators that hold it", tuple(count(sheet.holding(each)) for each in held))


def _inference(sheet: CostSheet) -> Iterator[Section]:
    """Weights by format; decode state by kind of layer; what a decoding step reads."""
    state = sheet.state
    held = [weights + state.total for weights in sheet.weights.values()]
    rows = [Row("weights", tuple(map(size, sheet.weights.values())))]
    rows += [Row("with the decode state", tuple(map(size, held)), detail=True)] if state.memories else []
    rows += [replace(row, detail=True) for row in _devices(sheet, *held)]
    yield Section("Memory of inference", tuple(sheet.weights), tuple(rows))
    if "decode" in sheet.modes:
        yield _state(state, sheet.precision)
        yield _reading(sheet)


def _state(state: DecodeState, precision: str) -> Section:
    """Of all layers, by kind of layer, and the positions beside them."""
    layers = sum(each.bytes for each in state.memories)
    rows = [Row("all layers", (exact(state.per_token), size(layers // state.batch), size(layers)))]
    for each in state.memories:
        figures = exact(each.per_token), size(each.bytes // state.batch), size(each.bytes)
        rows.append(Row(f"{shown(each.name)}: grows {each.grows}", figures, detail=True))
    if state.book:
        own = state.book // state.batch
        rows.append(Row("positions of tokens", (exact(own // state.context), exact(own), size(state.book)), detail=True))
        together = exact(state.per_token + own // state.context), size(state.per_sequence), size(state.total)
        rows.append(Row("together", together, detail=True))
    return Section(f"Decode state in {precision}", ("a token adds", "a sequence", "the batch"), tuple(rows))


def _reading(sheet: CostSheet) -> Section:
    """Bytes, and of each kind of mixture the experts that they hold."""
    reading = sheet.reading
    rows = [Row("bytes", (size(reading.weights), size(reading.state), size(reading.total)))]
    for experts, expected in expected_experts(sheet.architecture, sheet.batch):
        rows.append(Row(f"experts, of {experts:,} in a layer", (decimal(expected),), detail=True))
    return Section("Read by a decoding step", ("weights", "state", "together"), tuple(rows))


def _times(sheets: Mapping[Mode, CostSheet]) -> Section:
    """A column for each mode."""
    times = [_time(sheet) for sheet in sheets.values()]
    rows = (
        Row("time", tuple(seconds(time.seconds) for time in times)),
        Row("tokens per second", tuple(count(time.tokens_per_second) for time in times)),
        Row("MFU, dense", tuple(NOT_SHOWN if time.mfu is None else share(time.mfu) for time in times)),
        Row("MFU, exact", tuple(share(time.mfu_exact) for time in times), detail=True),
        Row("bandwidth used", tuple(share(time.bandwidth_used) for time in times)),
        Row("FLOPs per byte", tuple(decimal(time.intensity) for time in times), detail=True),
        Row("waits for", tuple(_waits(time) for time in times)),
    )
    return Section(f"Time on one {times[0].hardware.title}", tuple(STEPS[mode] for mode in sheets), rows)


def _waits(time: StepTime) -> Figure:
    """What most of a step waits for: `compute 74%`."""
    waits = {bound: time.waits_for(bound) for bound in ("compute", "memory", "launch")}
    longest = max(waits, key=lambda bound: waits[bound])
    return Figure(f"{longest} {waits[longest]:.0%}")


def _operations(sheet: CostSheet) -> Section:
    """Slowest first; what is short stands together."""
    time = _time(sheet)
    found = time.by_component
    long = [operation for operation in found if operation.seconds >= SMALL * time.seconds]
    rows = [Row(shown(operation.name), _operation(operation, time.seconds)) for operation in long]
    if len(long) < len(found):
        rest = sum(operation.seconds for operation in found[len(long) :])
        rows.append(Row("the rest", (NOTHING, NOTHING, NOTHING, seconds(rest), share(rest / time.seconds))))
    columns = ("FLOPs", "bytes", "FLOPs/byte", "time", "share", "waits for")
    return Section(f"Where the time goes: {STEPS[sheet.mode]}", columns, tuple(rows), detail=True)


def _operation(operation: KernelTime, total: float) -> tuple[Figure, ...]:
    return (
        flops(operation.executed),
        size(operation.bytes),
        decimal(operation.intensity),
        seconds(operation.seconds),
        share(operation.seconds / total),
        Figure(operation.bound),
    )


def _time(sheet: CostSheet) -> StepTime:
    assert sheet.time is not None, "priced on hardware"
    return sheet.time


def shown(name: str) -> str:
    """`decoder.attention` -> `decoder attention`."""
    return name.replace(".", " ")
