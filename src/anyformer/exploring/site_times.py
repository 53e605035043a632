"""Times and prices that a page of the static site predicts by itself, piece by piece beside its exact figures.

They are those of the explorer's figures, but for what compares operations with one another (what a step waits for, the slowest
components), and but for the order in which seconds are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil
from typing import Any

from anyformer.atlas.evaluator_figures import PIECES, PricedPiece
from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import bounds_of_kernel, seconds_of
from anyformer.costs.sheet import MODES, CostSheet
from anyformer.exploring.figures import MILLION
from anyformer.exploring.question import PricedCall
from anyformer.operations import Flops
from anyformer.planning.bill import RunBill


def site_pieces(call: PricedCall) -> Mapping[str, PricedPiece]:
    """The exact figures, and of the first accelerator of a call what is known of it, and a piece for every mode."""
    hardware = hardware_of(call.on[0])
    modes = {f"time of {mode}": partial(_timed, hardware=hardware, rate=call.rate, mode=mode) for mode in MODES}
    return {**PIECES, "accelerator": partial(_facts, hardware=hardware, rate=call.rate), **modes}


def _facts(sheet: CostSheet, hardware: Hardware, rate: float) -> dict[str, Any]:
    needed = sheet.of("prefill").required_bytes
    facts = {
        "name": hardware.name, "title": hardware.title, "memory": hardware.memory, "usable": hardware.usable_memory,
        "rate": rate, "power": hardware.power, "bandwidth": hardware.bandwidth,
        "devices": {"inference": max(1, ceil(needed / hardware.usable_memory))},
        "peak": hardware.peak(hardware.resolved(sheet.plan).precision.unit), "modes": {}, "why": None,
    }  # fmt: skip
    return {"accelerators": [facts]}


def _timed(sheet: CostSheet, hardware: Hardware, rate: float, mode: Mode) -> dict[str, Any]:
    """Time and price of one mode."""
    if mode not in sheet.modes:
        return {}
    plan, shape = hardware.resolved(sheet.plan), sheet.of(mode).shape
    work, peak, tokens = kernels(sheet.architecture, shape, plan, mode), hardware.peak(plan.precision.unit), shape.rows
    seconds = sum(seconds_of(kernel, bounds_of_kernel(kernel, hardware)) * kernel.layers for kernel in work)
    bill, per_million = RunBill(1, seconds, hardware.power, rate), MILLION / tokens
    found = {
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "price_per_million_tokens": bill.price * per_million,
        "watt_hours_per_million_tokens": None if bill.energy is None else bill.energy * per_million,
        "waits_for": None, "waits": None, "too_small": None, "components": None,
        **_rates(work, seconds, hardware, peak),
    }  # fmt: skip
    return {"accelerators": [{"modes": {mode: found}}]}


def _rates(work: list[Kernel], seconds: float, hardware: Hardware, peak: float) -> dict[str, Any]:
    """Shares of the accelerator's rates that a step reaches."""
    flops = sum((kernel.flops * kernel.layers for kernel in work), Flops())
    executed = sum(kernel.executed * kernel.layers for kernel in work)
    moved = sum(kernel.bytes * kernel.layers for kernel in work)
    dense = flops.dense / seconds / peak
    return {
        "mfu": {"dense": dense if dense <= 1 else None, "exact": flops.exact / seconds / peak},
        "bandwidth": moved / seconds / hardware.bandwidth,
        "intensity": executed / moved,
        "flops_per_second": executed / seconds,
    }
