"""The roofline of a device (Williams et al. 2009) with the operations of an architecture as points under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anyformer.costs.figures import scaled
from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Mode
from anyformer.costs.page import timed
from anyformer.costs.roofline import KernelTime, together
from anyformer.costs.sheet import STEPS, CostSheet
from anyformer.pictures.costs.meanings import marked, of_architecture
from anyformer.pictures.costs.share import colours_of, part_of, parts_shown
from anyformer.pictures.labels import label
from anyformer.pictures.style import FAINT, FULL, INK, MARKERS, below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 0.01
"""Share of a step's time below which an operation has no point."""


@dataclass(frozen=True)
class Point:
    """FLOPs per byte and FLOP/s of a component, or of a whole step, in one mode."""

    name: str
    mode: Mode
    intensity: float
    rate: float


def modes_of(sheet: CostSheet) -> tuple[Mode, ...]:
    """Prefill and decoding; for a model that does not decode, training and prefill."""
    return ("prefill", "decode") if "decode" in sheet.modes else ("train", "prefill")


def points(sheets: Mapping[str, CostSheet]) -> tuple[Point, ...]:
    """Points of one architecture's components, or of several architectures' whole steps, in every mode."""
    if len(sheets) > 1:
        return tuple(_step(name, sheet.of(mode)) for name, sheet in sheets.items() for mode in modes_of(sheet))
    (sheet,) = sheets.values()
    return tuple(point for mode in modes_of(sheet) for point in _components(sheet.of(mode)))


def _step(name: str, sheet: CostSheet) -> Point:
    time = timed(sheet)
    return Point(name, sheet.mode, time.intensity, sum(operation.executed for operation in time.operations) / time.seconds)


def _components(sheet: CostSheet) -> Sequence[Point]:
    """Points of each component's products, and of its work between positions."""
    time = timed(sheet)
    groups: dict[str, list[KernelTime]] = {}
    for operation in time.operations:
        if operation.executed:
            groups.setdefault(part_of(operation), []).append(operation)
    summed = (together(name, parts) for name, parts in groups.items())
    return [
        Point(part.name, sheet.mode, part.intensity, part.executed / part.seconds)
        for part in summed
        if part.bytes and part.seconds >= SMALL * time.seconds
    ]


def draw_roofline(axes: Axes, sheets: Mapping[str, CostSheet]) -> None:
    """The roof of the peaks, dashed the roof that is reached; colours and markers by component or architecture, filled in one
    mode and hollow in the other."""
    first = next(iter(sheets.values()))
    hardware, precision = timed(first).hardware, first.precision
    drawn = points(sheets)
    ridge = hardware.ridge(precision)
    ends = [point.intensity for point in drawn]
    low, high = min(*ends, ridge / 8) / 2, max(*ends, ridge) * 4
    lines = _roofs(axes, hardware, precision, low, high)
    titles = parts_shown(first, (point.name for point in drawn)) if len(sheets) == 1 else {name: name for name in sheets}
    markers = dict(zip(titles, MARKERS * 4, strict=False))
    modes = tuple(dict.fromkeys(point.mode for point in drawn))
    hues = colours_of(first) if len(sheets) == 1 else {name: of_architecture(i)["color"] for i, name in enumerate(sheets)}
    for point in drawn:
        colour = hues.get(point.name, FAINT)
        axes.plot(point.intensity, point.rate, markers[point.name], zorder=3, **marked(colour, point.mode, modes))
    for mode in modes:
        axes.plot([], [], "o", label=STEPS[mode], **marked(INK, mode, modes))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(min(point.rate for point in drawn) / 12, hardware.peak(precision) * 4)
    axes.set_xlabel("FLOPs per byte moved")
    axes.set_ylabel("FLOPs executed per second")
    axes.yaxis.set_major_formatter(lambda value, _: scaled(value).strip())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid()
    axes.set_title(f"roofline of one {hardware.title}, {precision}")
    below(axes, FULL)
    label(axes, [(point.intensity, point.rate) for point in drawn], [titles[point.name] for point in drawn], lines)


def _roof(peak: float, bandwidth: float, low: float, high: float) -> list[tuple[float, float]]:
    """Points of a roof: min(peak, bandwidth x intensity)."""
    return [(x, min(peak, bandwidth * x)) for x in np.geomspace(low, high, 200).tolist()]


def _roofs(axes: Axes, hardware: Hardware, precision: str, low: float, high: float) -> list[tuple[float, float]]:
    """Draw the roof of the printed figures, and dashed the roof of the shares of them that are reached; return both."""
    peak, shares = hardware.peak(precision), hardware.efficiency
    roof = _roof(peak, hardware.bandwidth, low, high)
    counted = _roof(peak * shares.matrix, hardware.bandwidth * shares.memory, low, high)
    axes.plot(*zip(*roof, strict=True), color=INK, linewidth=1.6)
    axes.plot(
        *zip(*counted, strict=True), color=FAINT, linewidth=1.1, linestyle="--", label="shares of both that are counted on"
    )
    ridge = hardware.ridge(precision)
    axes.annotate(f"{scaled(peak)}FLOP/s", (high, peak), (-4, 4), textcoords="offset points", ha="right")
    start = (low * ridge) ** 0.5
    axes.annotate(
        f"{scaled(hardware.bandwidth)}B/s", (start, hardware.bandwidth * start), (-6, 4), textcoords="offset points", ha="right"
    )
    axes.axvline(ridge, color=FAINT, linewidth=0.8, linestyle=":")
    axes.annotate(
        f"ridge: {ridge:,.0f}", (ridge, 1), (-4, -4), xycoords=("data", "axes fraction"), textcoords="offset points",
        color=FAINT, ha="right", va="top",
    )  # fmt: skip
    return [*roof, *counted]
