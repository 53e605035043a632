"""Named accelerators: peak rates by precision, memory, links, and the shares of them that are reached, from hardware.toml.

All figures are of one chip as the program sees it, in FLOP/s, bytes and bytes/s, links per direction.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
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
        for name in (each.name for each in fields(self)):
            if not (name == "overlap" and getattr(self, name) == 0) and not 0 < getattr(self, name) <= 1:
                raise ValueError(f"efficiency.{name} is a share of the peak, above 0 and at most 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Hardware:
    """One accelerator and its links; `source` says where the figures are printed."""

    name: str
    title: str
    peaks: Mapping[str, float] = field(hash=False)
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


BOUNDS: Mapping[str, tuple[float, float, str]] = MappingProxyType(
    {
        "peaks": (0.5, 100_000, "TFLOP/s: GFLOP/s are a thousand times as many"),
        "bandwidth": (10, 50_000, "GB/s: TB/s are a thousandth of these, bytes a thousand million"),
        "memory": (1, 4_096, "GiB: MiB are a thousand times as many, bytes a thousand million"),
        "link": (1, 4_000, "GB/s in one direction: of Gb/s these are an eighth"),
        "network": (0.1, 200, "GB/s in one direction: of Gb/s these are an eighth"),
        "domain": (1, 100_000, "a number of chips"),
        "launch": (0.1, 100, "microseconds: nanoseconds are a thousand times as many"),
        "power": (5, 10_000, "W: kW are a thousandth of these"),
    }
)
"""Least and most of each figure of a table, and its unit: beyond any chip of today, and within the mistakes of units."""
MOST_OF_LINK = 0.5
"""Most of a chip's link, as a share of the bandwidth of its memory: TPU v3 has 0.44. Links in Gb/s often have more."""
OTHERS = ("title", "reached", "source")
OPTIONAL = ("launch", "power")


def _read(name: str, row: Mapping[str, Any], reached: Mapping[str, Mapping[str, float]]) -> Hardware:
    """The hardware of one table of hardware.toml, in bytes, FLOP/s and seconds."""
    _refuse(name, row, reached)
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


def _refuse(name: str, row: Mapping[str, Any], reached: Mapping[str, Mapping[str, float]]) -> None:
    """Refuse a table without a figure, with one that is none, or with one in another unit."""
    where, known = f"hardware.toml: [{name}]", (*OTHERS, *BOUNDS)
    for given in (given for given in row if given not in known):
        raise UserError(f"{where} has {given!r}, which is none of a chip's figures{did_you_mean(given, known)}")
    for given in (given for given in known if given not in row and given not in OPTIONAL):
        raise UserError(f"{where} has no {given!r}")
    if row["reached"] not in reached:
        raise UserError(f"{where} has reached = {row['reached']!r}{did_you_mean(row['reached'], reached)}")
    for given, (least, most, unit) in BOUNDS.items():
        figures = row[given].items() if given == "peaks" else [("", row[given])] if given in row else []
        for key, figure in figures:
            if not least <= figure <= most:
                path = f"{given}.{key}" if key else given
                raise UserError(f"{where} has {path} = {figure:g}, which should be {least:g} to {most:,g} {unit}")
    slowest = row["peaks"].get("fp32", 0.0)
    for key, peak in row["peaks"].items():
        if peak < slowest:
            raise UserError(
                f"{where} has peaks.{key} = {peak:g}, less than fp32 with {slowest:g}: all are TFLOP/s, PFLOP/s are a "
                "thousandth of these"
            )
    if row["link"] > MOST_OF_LINK * row["bandwidth"]:
        raise UserError(
            f"{where} has link = {row['link']:g}, more than {MOST_OF_LINK:g} of its bandwidth, {row['bandwidth']:g}: both are "
            "GB/s, of Gb/s these are an eighth"
        )


def hardware_table(text: str) -> Mapping[str, Hardware]:
    """The accelerators of a text like hardware.toml, by name; refuses a figure that is in another unit."""
    tables = tomllib.loads(text)
    reached = tables.pop("reached")
    return MappingProxyType({name: _read(name, row, reached) for name, row in tables.items()})


_TABLE = files("anyformer.costs").joinpath("hardware.toml")
HARDWARE: Mapping[str, Hardware] = hardware_table(_TABLE.read_text(encoding="utf-8"))
HERE = "here"
"""The name under which `calibrated` measures this machine."""
