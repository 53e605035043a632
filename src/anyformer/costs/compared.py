"""Architectures priced for one call on one accelerator, in words: what `anyformer cost` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyformer.costs.hardware import Hardware
from anyformer.costs.roofline import Operation, StepTime
from anyformer.costs.sheet import CostSheet, cost, scaled
from anyformer.costs.work import Mode
from anyformer.model import Architecture
from anyformer.plan import Plan

SMALL = 0.005
"""Share of the time below which operations share a line."""


@dataclass(frozen=True)
class Call:
    """What is asked of every architecture alike."""

    mode: Mode
    batch: int
    length: int
    source_length: int | None
    plan: Plan
    hardware: Hardware

    def title(self) -> str:
        """One line: the call, the hardware, and the shares of its peaks that are counted on."""
        does = {
            "train": f"one training step of {self.batch} x {self.length:,} tokens",
            "prefill": f"reading {self.batch} x {self.length:,} tokens",
            "decode": f"one more token for each of {self.batch} sequences of {self.length:,}",
        }[self.mode]
        on, reached = self.hardware, self.hardware.efficiency
        precision = on.resolved(self.plan).precision
        return (
            f"{does}, {precision}, on {on.title}: {scaled(on.peak(precision))}FLOP/s ({reached.matrix:.0%} in products, "
            f"{reached.attention:.0%} in attention), {scaled(on.bandwidth)}B/s ({reached.memory:.0%})"
        )


@dataclass(frozen=True)
class Priced:
    """One architecture, its sheet and its time."""

    name: str
    longest: int | None
    call: Call
    sheet: CostSheet

    @property
    def time(self) -> StepTime:
        assert self.sheet.time is not None, "priced on hardware"
        return self.sheet.time

    @property
    def weight_bytes(self) -> int:
        """All parameters in the precision of the call."""
        return self.sheet.params.total * (4 if self.time.precision == "fp32" else 2)

    @property
    def least_devices(self) -> int:
        """Accelerators whose memory holds weights and decode state, or in training weights, gradients and two moments."""
        held = 16 * self.sheet.params.total if self.call.mode == "train" else self.weight_bytes + self.sheet.state_bytes
        return int(-(-held // self.call.hardware.memory))

    @property
    def only_stack(self) -> str:
        """What the names of operations may leave out: the stack, where there is but one."""
        stacks = {operation.name.split(".")[0] for operation in self.time.operations} & {"encoder", "decoder"}
        return f"{min(stacks)}." if len(stacks) == 1 else ""

    def rows(self) -> list[tuple[str, str]]:
        """(what, how much)."""
        sheet, time, train = self.sheet, self.time, self.call.mode == "train"
        params, flops = sheet.params, sheet.flops.total
        rows = [("parameters", f"{params.total:,}")]
        if params.active != params.total:
            rows.append(("  used by one token", f"{params.active:,}"))
        rows += [
            ("FLOPs, every pair", scaled(flops.dense)),
            ("FLOPs, pairs the masks allow", scaled(flops.exact)),
            ("  per token", scaled(flops.exact // time.tokens)),
            (f"weights, {time.precision}", f"{scaled(self.weight_bytes)}B"),
        ]
        if train:
            rows.append(("  with gradients and moments, fp32", f"{scaled(16 * params.total)}B"))
        else:
            rows.append(("decode state", f"{scaled(sheet.state_bytes)}B"))
            rows.append(("  per token and row", f"{scaled(sheet.state_bytes_per_token)}B"))
        rows += [
            ("accelerators that hold these", f"{self.least_devices:,} or more" if self.least_devices > 1 else "1"),
            ("time of one step on one", clock(time.seconds)),
            ("tokens per second", f"{time.tokens_per_second:,.0f}"),
            ("MFU, every pair", f"{time.mfu:.1%}"),
            ("MFU, pairs the masks allow", f"{time.mfu_exact:.1%}"),
            ("bandwidth used", f"{time.bandwidth_used:.1%}"),
            ("FLOPs per byte", f"{time.intensity:.1f}"),
        ]
        for bound in ("compute", "memory", "launch"):
            rows.append((f"  waiting for {bound}", f"{time.waits_for(bound):.1%}"))
        return rows

    def operation_rows(self) -> list[tuple[str, ...]]:
        """(operation, FLOPs, bytes, FLOPs per byte, time, share, bound), slowest first; what is short stands together."""
        total, found = self.time.seconds, self.time.by_component
        shown = [operation for operation in found if operation.seconds >= SMALL * total]
        rows = [self._row(operation) for operation in shown]
        if len(shown) < len(found):
            rest = sum(operation.seconds for operation in found[len(shown) :])
            rows.append((f"{len(found) - len(shown)} others", "", "", "", clock(rest), f"{rest / total:.1%}", ""))
        return rows

    def _row(self, operation: Operation) -> tuple[str, ...]:
        return (
            operation.name.removeprefix(self.only_stack).replace(".", " "),
            scaled(operation.executed).strip(),
            f"{scaled(operation.bytes)}B",
            f"{operation.intensity:.1f}",
            clock(operation.seconds),
            f"{operation.seconds / self.time.seconds:.1%}",
            operation.bound,
        )

    def warnings(self) -> list[str]:
        """What the figures leave out of sight."""
        found = []
        if self.longest is not None and self.call.length > self.longest:
            found.append(f"its position table ends at {self.longest:,}, so it cannot be run at {self.call.length:,}")
        if self.least_devices > 1:
            found.append(f"does not fit into one {self.call.hardware.title}: the time is as if it did, without communication")
        return found

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        held = {"weight_bytes": self.weight_bytes, "least_devices": self.least_devices}
        return {"name": self.name, **self.sheet.data(), **held, "warnings": self.warnings()}


def priced(name: str, architecture: Architecture, call: Call) -> Priced:
    """The sheet and the time of one architecture."""
    sheet = cost(
        architecture,
        batch=call.batch,
        length=call.length,
        source_length=call.source_length,
        mode=call.mode,
        plan=call.hardware.resolved(call.plan),
        hardware=call.hardware,
    )
    limits = [stack.max_length for stack in architecture.stacks.values() if stack.max_length is not None]
    return Priced(name, min(limits, default=None), call, sheet)


def clock(seconds: float) -> str:
    """Seconds, milliseconds or microseconds, four digits."""
    unit, factor = next((pair for pair in (("s", 1.0), ("ms", 1e-3)) if seconds >= pair[1]), ("us", 1e-6))
    return f"{seconds / factor:.4g} {unit}"
