"""The declared figures of an architecture as plain data: parameters, FLOPs, decode state, times and prices. No torch is needed.

All numbers are parameters, FLOPs, bytes, seconds and dollars. The memory of training, which is traced, is asked for separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from math import ceil
from typing import Any

from anyformer.costs import cost
from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.page import beyond_tables, longest
from anyformer.costs.roofline import StepTime, step_of
from anyformer.costs.sheet import CostSheet
from anyformer.describe import UserError
from anyformer.exploring.question import PricedCall
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.planning.bill import RunBill

LENGTH = 4096
"""Positions where none are given, or fewer where a position table is shorter: those of `anyformer cost`."""
MILLION = 1e6


def sheet_of(architecture: Architecture, call: PricedCall) -> CostSheet:
    """The cost sheet of a call, on no hardware yet."""
    length = call.length or min(LENGTH, longest(architecture) or LENGTH)
    return cost(
        architecture, batch=call.batch, length=length, source_length=call.source, mode="train", plan=call.plan,
    )  # fmt: skip


def figures(sheet: CostSheet, call: PricedCall) -> dict[str, Any]:
    """All declared figures of a sheet."""
    prompt = sheet.of("prefill")
    decodes = "decode" in sheet.modes
    return {
        "parameters": _parameters(sheet),
        "flops": _flops(sheet),
        "state": _state(prompt) if decodes else None,
        "weights": dict(sheet.weights),
        "inference": {name: size + prompt.state_bytes for name, size in sheet.weights.items()},
        "reading": {**asdict(prompt.reading), "total": prompt.reading.total} if decodes else None,
        "elementwise": {kind: flops.exact for kind, flops in prompt.elementwise.items()},
        "modes": list(sheet.modes),
        "accelerators": list(_accelerators(sheet, call)),
    }


def warnings(sheet: CostSheet) -> list[str]:
    """Reasons why the call cannot run as priced."""
    return list(beyond_tables(sheet.architecture, sheet.length, sheet.source))


def _parameters(sheet: CostSheet) -> dict[str, Any]:
    params = sheet.params
    components = [
        {"component": name, "total": size, "active": params.active_by_component[name], "share": size / max(params.total, 1)}
        for name, size in params.by_component.items()
    ]
    embedding = sum(size for name, size in params.by_component.items() if name in ("embedding", "decoder_embedding"))
    own = {"total": params.total, "active": params.active, "embedding": embedding, "mtp": params.mtp}
    return {**own, "components": components}


def _flops(sheet: CostSheet) -> dict[str, Any]:
    """FLOPs of every pair (dense), and of those that masks allow (exact); `per_token`: exact."""
    flops, prompt = sheet.flops, sheet.of("prefill")
    step = sheet.of("decode").flops.total if "decode" in sheet.modes else None
    forward = prompt.flops.forward
    return {
        "forward": _both(forward),
        "backward": _both(flops.backward),
        "training": _both(flops.total),
        "executed": {**asdict(sheet.executed), "total": sheet.executed.total},
        "decode": None if step is None else _both(step),
        "per_token": {
            "forward": forward.exact / prompt.tokens,
            "training": flops.total.exact / sheet.tokens,
            "decode": None if step is None else step.exact / sheet.batch,
        },
        "components": [
            {"component": name, **_both(own), "share": own.exact / max(forward.exact, 1)}
            for name, own in forward.by_component.items()
        ],
    }


def _both(flops: Any) -> dict[str, int]:
    return {"dense": flops.dense, "exact": flops.exact}


def _state(sheet: CostSheet) -> dict[str, Any]:
    state = sheet.state
    memories = [asdict(memory) for memory in state.memories]
    own = {"per_token": state.per_token, "per_sequence": state.per_sequence, "total": state.total}
    return {**own, "positions": state.positions, "memories": memories}


def _accelerators(sheet: CostSheet, call: PricedCall) -> Iterator[dict[str, Any]]:
    """Times and prices on every accelerator that was asked for, one of it, as if everything fitted into its memory."""

    @cache
    def work(plan: Plan, mode: Mode) -> list[Kernel]:
        return kernels(sheet.architecture, sheet.of(mode).shape, plan, mode)

    for hardware in map(hardware_of, call.on):
        plan = hardware.resolved(call.plan)
        needed = sheet.of("prefill").required_bytes
        facts = {
            "name": hardware.name, "title": hardware.title, "memory": hardware.memory, "usable": hardware.usable_memory,
            "rate": call.rate, "power": hardware.power, "bandwidth": hardware.bandwidth,
            "devices": {"inference": max(1, ceil(needed / hardware.usable_memory))},
        }  # fmt: skip
        try:
            peak = hardware.peak(plan.precision.unit)
            unit = plan.precision.unit
            times = {mode: step_of(work(plan, mode), sheet.of(mode).shape, unit, hardware, mode) for mode in sheet.modes}
        except UserError as error:  # a chip without such a number format
            yield {**facts, "peak": None, "modes": {}, "why": str(error)}
            continue
        modes = {mode: _timed(time, hardware, call.rate) for mode, time in times.items()}
        yield {**facts, "peak": peak, "modes": modes, "why": None}


def _timed(time: StepTime, hardware: Hardware, rate: float) -> dict[str, Any]:
    waits = {bound: time.waits_for(bound) for bound in ("compute", "memory", "launch")}
    longest_wait = max(waits, key=lambda bound: waits[bound])
    bill = RunBill(1, time.seconds, hardware.power, rate)
    per_million = MILLION / time.tokens
    executed = sum(operation.executed for operation in time.operations)
    return {
        "seconds": time.seconds,
        "tokens_per_second": time.tokens_per_second,
        "mfu": {"dense": time.mfu, "exact": time.mfu_exact},
        "bandwidth": time.bandwidth_used,
        "intensity": time.intensity,
        "flops_per_second": executed / time.seconds,
        "waits_for": longest_wait,
        "waits": waits[longest_wait],
        "too_small": time.too_small,
        "price_per_million_tokens": bill.price * per_million,
        "watt_hours_per_million_tokens": None if bill.energy is None else bill.energy * per_million,
        "components": [
            {"name": each.name, "seconds": each.seconds, "share": each.seconds / time.seconds, "bound": each.bound}
            for each in time.by_component
        ],
    }
