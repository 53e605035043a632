"""A cost sheet in words: what `anyformer cost` prints of one architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from anyformer.costs.counts import Parameters
from anyformer.costs.figures import NOTHING, Figure, count, decimal, exact, flops, scaled, seconds, share, size
from anyformer.costs.inference import DecodeState, expected_experts
from anyformer.costs.kernel import Mode
from anyformer.costs.moments import Moment
from anyformer.costs.roofline import KernelTime, StepTime
from anyformer.costs.rows import FigureRow, Section
from anyformer.costs.sheet import STEPS, CostSheet
from anyformer.costs.traceable import NEEDS_TORCH, traceable
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
"""MFU that counts all pairs, where it would exceed 100 %."""
SMALL = 0.005
"""Share of the time below which operations share a line."""
AT: Mapping[Moment, str] = {
    "forward": "the forward pass",
    "loss": "the loss",
    "backward": "the backward pass",
    "update": "the update",
}


def page(sheet: CostSheet, modes: Sequence[Mode], *, compared: bool = False) -> tuple[Section, ...]:
    """Sections of the sheet in some modes; of a single one on hardware its time, memory and slowest operations come first.

    `compared`: as `side_by_side` shows them, where figures of all sheets share rows.
    """
    sheets = {mode: sheet.of(mode) for mode in modes if mode in sheet.modes}
    model = [_parameters_compared(sheet) if compared else _parameters(sheet), _flops(sheets)]
    memory = [_training(sheets["train"], compared=compared)] if "train" in sheets and traceable() else []
    if sheets.keys() - {"train"}:
        memory += _inference(sheet.of("prefill"))
    if sheet.hardware is None:
        return (*model, *memory)
    if len(sheets) > 1:
        return (*model, *memory, _times(sheets))
    # Of a decoding step its state comes before the weights in all formats.
    ordered = memory[1:] + memory[:1] if "decode" in sheets else memory
    return (_times(sheets), *ordered, *map(_operations, sheets.values()), *model)


def title(sheet: CostSheet) -> str:
    """The call, and the hardware it runs on."""
    lengths = f"{sheet.length:,} tokens" + (f" from a source of {sheet.source:,}" if sheet.source else "")
    prefix = f" ({sheet.prefix:,} of prefix)" if sheet.prefix else ""
    trained = "" if sheet.optimiser is None else f", trained with {sheet.optimiser.kind}"
    call = f"batch {sheet.batch:,} x {lengths}{prefix}, {sheet.unit}{trained}"
    return call if sheet.hardware is None else f"{call}, on {sheet.hardware.title}"


def reached(sheet: CostSheet) -> str:
    """The hardware's peaks, and the shares of them that times count on."""
    hardware = sheet.hardware
    assert hardware is not None, "priced on hardware"
    shares, rate = hardware.efficiency, hardware.rate(sheet.plan.precision.unit)
    return (
        f"counted on: {rate}, {shares.matrix:.0%} of it in products and {shares.attention:.0%} in "
        f"attention; {scaled(hardware.bandwidth)}B/s, {shares.memory:.0%} of it"
    )


def longest(architecture: Architecture) -> int | None:
    """The longest input that all position tables cover; None without limit. A latent array's own table limits nothing."""
    reading = [stack for name, stack in architecture.stacks.items() if architecture.latents is None or name == "encoder"]
    return min((stack.max_length for stack in reading if stack.max_length is not None), default=None)


def warnings(sheet: CostSheet, modes: Sequence[Mode]) -> tuple[str, ...]:
    """Reasons why a call cannot run as priced: positions beyond a table, memory beyond that of one device."""
    lines = [*beyond_tables(sheet.architecture, sheet.length, sheet.source)]
    if "train" in modes and not traceable():
        lines.append(NEEDS_TORCH)
    hardware = sheet.hardware
    shown_modes = [mode for mode in modes if mode in sheet.modes]
    for call in map(sheet.of, shown_modes):
        # Prompts and the tokens after them take the same memory.
        repeated = call.mode == "prefill" and "decode" in shown_modes
        if hardware is not None and call.devices > 1 and not repeated:
            lines.append(
                f"one {hardware.title} has no room for {HOLDS[call.mode]}: "
                f"{scaled(call.required_bytes)}B of {scaled(hardware.usable_memory)}B "
                f"(times are as if it had); {REMEDIES[call.mode]}"
            )
        if call.time is not None and call.time.too_small:
            lines.append(f"the {STEPS[call.mode]} is {call.time.too_small}")
    return tuple(lines)


def beyond_tables(architecture: Architecture, length: int, source: int = 0) -> Iterator[str]:
    """A warning for every stack whose position table ends before the length of its input."""
    for name, stack in architecture.stacks.items():
        positions = source if name == "encoder" and source else length
        latent = name == "decoder" and architecture.latents is not None
        if stack.max_length is not None and stack.max_length < positions and not latent:
            yield f"the {name}'s position table ends at {stack.max_length:,}, so it cannot be run at {positions:,}"


def _parameters(sheet: CostSheet) -> Section:
    """Parameters stored, and those that one token uses where it uses a part of the experts."""
    params = sheet.params
    table = {"total": (params.total, params.active)}
    table |= {shown(name): (number, params.active_by_component[name]) for name, number in params.by_component.items()}
    columns = ("",) if params.active == params.total else ("", "active")
    rows = [FigureRow(name, tuple(map(count, numbers[: len(columns)]))) for name, numbers in table.items()]
    return Section("Parameters", columns, (*rows, *_beside(params)))


def _parameters_compared(sheet: CostSheet) -> Section:
    """Parameters stored, used by one token, and of components above a thousandth of all."""
    params = sheet.params
    rows = [FigureRow("total", (count(params.total),)), FigureRow("used by one token", (count(params.active),))]
    rows += [FigureRow(shown(name), (count(size),)) for name, size in params.by_component.items() if size * 1000 > params.total]
    return Section("Parameters", ("",), (*rows, *_beside(params)))


def _beside(params: Parameters) -> Iterator[FigureRow]:
    """Parameters that are counted beside the model."""
    if params.mtp:
        yield FigureRow("beside: later tokens, in training alone", (count(params.mtp),))


def _flops(sheets: Mapping[Mode, CostSheet]) -> Section:
    """FLOPs by each convention; of a training step also forward and backward alone."""
    # A training step's forward pass is a prefill.
    modes = [mode for mode in sheets if mode != "prefill" or "train" not in sheets]
    rows = [row for mode in modes for row in _flops_of(mode, sheets[mode])]
    work = sum(sheets[modes[0]].elementwise.values(), Flops())
    rows.append(FigureRow("element-wise operations, forward", (flops(work.dense), flops(work.exact)), detail=True))
    return Section("FLOPs of matrix products", ("dense", "exact", "executed"), tuple(rows))


def _flops_of(mode: Mode, sheet: CostSheet) -> Iterator[FigureRow]:
    model, run, tokens = sheet.flops, sheet.executed, sheet.tokens
    if mode == "train":
        yield FigureRow("forward", _conventions(model.forward.dense, model.forward.exact, run.forward), detail=True)
        yield FigureRow("backward", _conventions(model.backward.dense, model.backward.exact, run.backward), detail=True)
    yield FigureRow(STEPS[mode], _conventions(model.total.dense, model.total.exact, run.total))
    per_token = _conventions(model.total.dense // tokens, model.total.exact // tokens, run.total // tokens)
    yield FigureRow(f"{STEPS[mode]}, per token", per_token)


def _conventions(*counts: int) -> tuple[Figure, ...]:
    return tuple(map(flops, counts))


def _training(sheet: CostSheet, *, compared: bool) -> Section:
    """Memory at the peak of a step by purpose; weights, gradients and both moments of AdamW in fp32."""
    figures = {**sheet.memory.named, "together, the peak of a step": sheet.memory.total}
    rows = [FigureRow(purpose, (size(number),)) for purpose, number in figures.items()]
    rows.append(FigureRow("saved for the backward pass", (size(sheet.activations.saved + sheet.activations.loss),)))
    rows += _devices(sheet, sheet.required_bytes)
    title, at, how = "Memory of training at its peak", AT[sheet.peak.at], f"checkpointing {sheet.plan.checkpointing}"
    if compared:  # the peaks of two architectures may fall into different passes
        return Section(f"{title}, {how}", ("",), (FigureRow("reached in", (Figure(at),)), *rows))
    return Section(f"{title} ({at})", (how,), tuple(rows))


def _devices(sheet: CostSheet, *sizes: int) -> Iterator[FigureRow]:
    """The number of devices that hold so many bytes, spread evenly."""
    if sheet.hardware is not None:
        yield FigureRow("accelerators that hold it", tuple(map(count, map(sheet.devices_for, sizes))))


def _inference(sheet: CostSheet) -> Iterator[Section]:
    """Weights by format; decode state by kind of layer; bytes that a decoding step reads."""
    state = sheet.state
    together = [weights + state.total for weights in sheet.weights.values()]
    rows = [FigureRow("weights", tuple(map(size, sheet.weights.values())))]
    rows += [FigureRow("with the decode state", tuple(map(size, together)), detail=True)] if state.memories else []
    rows += [replace(row, detail=True) for row in _devices(sheet, *together)]
    yield Section("Memory of inference", tuple(sheet.weights), tuple(rows))
    if "decode" in sheet.modes:
        yield _state(state, sheet.unit)
        yield _reading(sheet)


def _state(state: DecodeState, precision: str) -> Section:
    """Decode state of all layers, of each kind of layer, and of the positions beside them."""
    layers = sum(memory.bytes for memory in state.memories)
    rows = [FigureRow("all layers", (exact(state.per_token), size(layers // state.batch), size(layers)))]
    for memory in state.memories:
        figures = exact(memory.per_token), size(memory.bytes // state.batch), size(memory.bytes)
        rows.append(FigureRow(f"{shown(memory.name)}: grows {memory.grows}", figures, detail=True))
    if state.positions:
        own = state.positions // state.batch
        rows.append(
            FigureRow("positions of tokens", (exact(own // state.context), exact(own), size(state.positions)), detail=True)
        )
        together = exact(state.per_token + own // state.context), size(state.per_sequence), size(state.total)
        rows.append(FigureRow("together", together, detail=True))
    return Section(f"Decode state in {precision}", ("a token adds", "a sequence", "the batch"), tuple(rows))


def _reading(sheet: CostSheet) -> Section:
    """Bytes that a decoding step reads, and for each kind of mixture how many experts it reads."""
    reading = sheet.reading
    rows = [FigureRow("bytes", (size(reading.weights), size(reading.state), size(reading.total)))]
    for experts, expected in expected_experts(sheet.architecture, sheet.batch):
        rows.append(FigureRow(f"experts, of {experts:,} in a layer", (decimal(expected),), detail=True))
    return Section("Read by a decoding step", ("weights", "state", "together"), tuple(rows))


def _times(sheets: Mapping[Mode, CostSheet]) -> Section:
    """Time and use of the hardware, a column for each mode."""
    times = [timed(sheet) for sheet in sheets.values()]
    rows = (
        FigureRow("time", tuple(seconds(time.seconds) for time in times)),
        FigureRow("tokens per second", tuple(count(time.tokens_per_second) for time in times)),
        FigureRow("MFU, dense", tuple(NOT_SHOWN if time.mfu is None else share(time.mfu) for time in times)),
        FigureRow("MFU, exact", tuple(share(time.mfu_exact) for time in times), detail=True),
        FigureRow("bandwidth used", tuple(share(time.bandwidth_used) for time in times)),
        FigureRow("FLOPs per byte", tuple(decimal(time.intensity) for time in times), detail=True),
        FigureRow("waits for", tuple(_waits(time) for time in times)),
    )
    return Section(f"Time on one {times[0].hardware.title}", tuple(STEPS[mode] for mode in sheets), rows)


def _waits(time: StepTime) -> Figure:
    """The bound that takes most of a step's time: `compute 74%`."""
    waits = {bound: time.waits_for(bound) for bound in ("compute", "memory", "launch")}
    longest = max(waits, key=lambda bound: waits[bound])
    return Figure(f"{longest} {waits[longest]:.0%}")


def _operations(sheet: CostSheet) -> Section:
    """Operations, slowest first; the short ones in one line."""
    time = timed(sheet)
    operations = time.by_component
    long = [operation for operation in operations if operation.seconds >= SMALL * time.seconds]
    rows = [FigureRow(shown(operation.name), _operation(operation, time.seconds)) for operation in long]
    if len(long) < len(operations):
        rest = sum(operation.seconds for operation in operations[len(long) :])
        rows.append(FigureRow("the rest", (NOTHING, NOTHING, NOTHING, seconds(rest), share(rest / time.seconds))))
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


def timed(sheet: CostSheet) -> StepTime:
    """The time of a sheet that is priced on hardware."""
    assert sheet.time is not None, "priced on hardware"
    return sheet.time


def shown(name: str) -> str:
    """`decoder.attention` -> `decoder attention`."""
    return name.replace(".", " ")
