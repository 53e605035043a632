"""Times and prices that a page of the static site predicts by itself, piece by piece beside its exact figures.

They are those of the explorer's figures, but for what compares operations with one another (what a step waits for, the slowest
components), and but for the order in which seconds are added. What an accelerator reaches and costs is among the numbers of a
call, so that one program serves all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

from anyformer.atlas.evaluator_figures import PIECES, PricedPiece
from anyformer.costs.hardware import Hardware
from anyformer.costs.inference import held_state
from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import bounds_of_kernel, seconds_of
from anyformer.costs.sheet import MODES, CostSheet
from anyformer.exploring.figures import MILLION
from anyformer.exploring.question import PricedCall
from anyformer.operations import Flops
from anyformer.parts.call.shared import slot_bytes
from anyformer.planning.bill import RunBill

NUMBERS = ("usable", "peak", "bandwidth", "launch", "matrix", "attention", "memory", "elementwise", "power", "rate")
"""The numbers of an accelerator, which a call has behind its own; the last is in dollars for an hour."""
ONE_WATT = 1.0


def accelerator_numbers(call: PricedCall, name: str) -> tuple[float | None, ...]:
    """The `NUMBERS` of an accelerator in the precision of a call; the power is None where it is not known."""
    chip = hardware_of(name)
    shares, peak = chip.efficiency, chip.peak(chip.resolved(call.plan).precision.unit)
    used = (shares.matrix, shares.attention, shares.memory, shares.elementwise)
    return chip.usable_memory, peak, chip.bandwidth, chip.launch, *used, chip.power, call.rate


def site_pieces(call: PricedCall) -> Mapping[str, PricedPiece]:
    """The exact figures, and of an accelerator how many hold the call, and a piece for the time and price of every mode."""
    modes = {f"time of {mode}": partial(_timed, call=call, mode=mode) for mode in MODES}
    return {**{name: partial(_alone, piece) for name, piece in PIECES.items()}, "accelerator": _facts, **modes}


def _alone(piece: PricedPiece, sheet: CostSheet, *numbers: float) -> dict[str, Any]:
    """A piece that no accelerator changes."""
    return piece(sheet)


def _chip(call: PricedCall, numbers: Sequence[float]) -> tuple[Hardware, Sequence[float]]:
    """The accelerator of such numbers; its watts, which may be absent, and dollars for an hour."""
    _, peak, bandwidth, launch, matrix, attention, memory, elementwise, *bill = numbers
    first = hardware_of(call.on[0])
    shares = replace(first.efficiency, matrix=matrix, attention=attention, memory=memory, elementwise=elementwise)
    peaks = {first.resolved(call.plan).precision.unit: peak}
    return first.but(peaks=peaks, bandwidth=bandwidth, launch=launch, efficiency=shares), bill


def _facts(sheet: CostSheet, *numbers: float) -> dict[str, Any]:
    """How many hold the call, without what tells how its state grows, which holds under more conditions."""
    usable, prompt, plan = numbers[0], sheet.of("prefill"), sheet.plan
    held = held_state(sheet.architecture, sheet.batch, sheet.length, sheet.source, plan) if "decode" in sheet.modes else {}
    needed = prompt.weights["bf16"] + sum(held.values()) + (slot_bytes(sheet.batch, sheet.length) if held else 0)
    return {"accelerators": [{"devices": {"inference": max(1, ceil(needed / usable))}, "modes": {}, "why": None}]}


def _timed(sheet: CostSheet, *numbers: float, call: PricedCall, mode: Mode) -> dict[str, Any]:
    """Time and price of one mode."""
    if mode not in sheet.modes:
        return {}
    hardware, (power, rate) = _chip(call, numbers)
    plan, shape = hardware.resolved(sheet.plan), sheet.of(mode).shape
    work, peak, tokens = kernels(sheet.architecture, shape, plan, mode), hardware.peak(plan.precision.unit), shape.rows
    seconds = sum(seconds_of(kernel, bounds_of_kernel(kernel, hardware)) * kernel.layers for kernel in work)
    bill, per_million = RunBill(1, seconds, ONE_WATT, rate), MILLION / tokens
    found = {
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "price_per_million_tokens": bill.price * per_million,
        "watt_hours_per_million_tokens": None if bill.energy is None else bill.energy * power * per_million,
        "waits_for": None, "waits": None, "too_small": None, "components": None,
        **_rates(work, seconds, hardware, peak),
    }  # fmt: skip
    return {"accelerators": [{"modes": {mode: found}}]}


def _rates(work: list[Kernel], seconds: float, hardware: Hardware, peak: float) -> dict[str, Any]:
    """Shares of the accelerator's rates that a step reaches."""
    flops = sum((kernel.flops * kernel.layers for kernel in work), Flops())
    executed = sum(kernel.executed * kernel.layers for kernel in work)
    moved = sum(kernel.bytes * kernel.layers for kernel in work)
    return {
        "mfu": {"dense": None, "exact": flops.exact / seconds / peak},
        "bandwidth": moved / seconds / hardware.bandwidth,
        "intensity": executed / moved,
        "flops_per_second": executed / seconds,
    }
