"""Named accelerators: peak rates by precision, memory, links, and the shares of them that are reached, from hardware.toml.

All figures are of one chip as the program sees it, in FLOP/s, bytes and bytes/s, links per direction.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from anyformer.costs.figures import scaled
from anyformer.describe import UserError, did_you_mean
from anyformer.plan import Plan
from anyformer.precision import Auto

T, G, GIB = 1e12, 1e9, 2**30


@dataclass(frozen=True)
class Efficiency:
    """Shares of a generation's figures that well-written code reaches; time = work / (figure * share).

    docs/published.md says which are fitted to published runs; the others are measured once, or assumed.
    """

    matrix: float = 0.72
    """Large matrix products."""
    attention: float = 0.5
    """A fused attention kernel, forward and backward together."""
    memory: float = 0.85
    """Long reads and writes."""
    elementwise: float = 0.35
    """Element-wise kernels, a share of the bandwidth below `memory`: they are counted as if neighbours were fused."""
    network: float = 0.8
    """Links within a node and between nodes, by large messages."""
    overlap: float = 0.8
    """Share of the compute time that can hide transfers of weights and gradients."""
    capacity: float = 0.92
    """Share of the memory that tensors may take; the rest goes to the context, to transfers and to fragments."""

    def of_bandwidth(self, unit: str) -> float:
        """Share of the bandwidth that a kernel of a unit reaches."""
        return self.elementwise if unit == "memory" else self.memory

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            if not (name == "overlap" and getattr(self, name) == 0) and not 0 < getattr(self, name) <= 1:
                raise ValueError(f"efficiency.{name} is a share of the peak, above 0 and at most 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Hardware:
    """One accelerator and its links; `source` says where the figures are printed."""

    name: str
    title: str
    peaks: Mapping[str, float]
    """FLOP/s of the fastest unit by number format: fp32 (no tf32), tf32, fp16, bf16, fp8, fp4, int8. `anyformer list
    --hardware` shows all."""
    bandwidth: float
    """Bytes/s of the memory."""
    memory: float
    """Bytes of the memory."""
    link: float
    """Bytes/s per direction to the other accelerators of its domain (NVLink, Infinity Fabric, ICI, PCIe)."""
    network: float
    """Bytes/s per direction and accelerator between domains."""
    domain: int
    """Accelerators that `link` joins."""
    source: str
    efficiency: Efficiency = Efficiency()
    launch: float = 2e-6
    """Seconds that the shortest kernel takes when kernels are launched back to back."""
    generation: str = ""
    """The name of its set of efficiencies."""
    power: float | None = None
    """Watts at most: its thermal design power; None where its source prints none."""

    def unit(self, precision: str) -> str:
        """The precision whose peak is that of `precision`: fp16 for bf16 on a chip without it, else itself."""
        for known in (precision, "fp16") if precision == "bf16" else (precision,):
            if known in self.peaks:
                return known
        raise UserError(f"{self.title} has no peak for {precision!r}{did_you_mean(precision, self.peaks)}")

    def peak(self, precision: str) -> float:
        """FLOP/s at a precision; those of fp16 for a chip without bf16."""
        return self.peaks[self.unit(precision)]

    def rate(self, precision: str) -> str:
        """The peak in words, with the precision that stands in for one that the chip has not."""
        unit = self.unit(precision)
        lacking = "bf16" if unit == "fp16" and "bf16" not in self.peaks else ""
        other = f" ({unit}, as it has no {lacking})" if lacking else ""
        return f"{scaled(self.peaks[unit])}FLOP/s{other}"

    @property
    def usable_memory(self) -> int:
        """Bytes that tensors may take."""
        return int(self.memory * self.efficiency.capacity)

    def ridge(self, precision: str) -> float:
        """FLOPs per byte above which compute, not memory, is the bound (Williams et al. 2009)."""
        return self.peak(precision) / self.bandwidth

    def resolved(self, plan: Plan) -> Plan:
        """The plan with `auto` precision resolved: the fastest of fp32, bf16 and fp16, the first of equal ones."""
        if plan.precision != Auto():
            return plan
        return plan.but(precision=max(("fp32", "bf16", "fp16"), key=lambda number: self.peaks.get(number, 0.0)))

    def but(self, **changes: object) -> Hardware:
        """A copy with other figures: another efficiency, say."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _read(name: str, row: dict[str, Any], reached: Mapping[str, dict[str, float]]) -> Hardware:
    """The hardware of one table of hardware.toml, in bytes, FLOP/s and seconds."""
    return Hardware(
        name,
        row["title"],
        MappingProxyType({precision: rate * T for precision, rate in row["peaks"].items()}),
        row["bandwidth"] * G,
        row["memory"] * GIB,
        row["link"] * G,
        row["network"] * G,
        row["domain"],
        row["source"],
        Efficiency(**reached[row["reached"]]),
        row.get("launch", 2) * 1e-6,
        row["reached"],
        row.get("power"),
    )


def _known() -> Mapping[str, Hardware]:
    tables = tomllib.loads(files("anyformer.costs").joinpath("hardware.toml").read_text(encoding="utf-8"))
    reached = tables.pop("reached")
    return MappingProxyType({name: _read(name, row, reached) for name, row in tables.items()})


HARDWARE: Mapping[str, Hardware] = _known()
HERE = "here"
"""The name under which `calibrated` measures this machine."""
