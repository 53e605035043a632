"""Memory: of training by purpose, of inference by format of weights, beside the memory of a device. Stacked bars of one
architecture; of several, whose sizes may be a hundred times each other's, points on a logarithmic axis (`rows`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from anyformer.costs.hardware import Hardware
from anyformer.costs.sheet import CostSheet
from anyformer.pictures.costs.meanings import MEMORY
from anyformer.pictures.costs.rows import Rows, draw_rows
from anyformer.pictures.style import FAINT, INK, below, in_bytes
from anyformer.plan import Checkpointing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEVERAL = ("bf16", "fp8", "int4")
"""Formats of weights drawn where several architectures stand side by side."""
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
FAR = 2.5
"""Multiple of the longest bar above which the line of a device's memory is left out."""


@dataclass(frozen=True)
class Bar:
    """Bytes of `parts`, one on top of the other, and the number of `devices` that hold them."""

    name: str
    parts: Mapping[str, int]
    devices: int

    @property
    def total(self) -> int:
        """Bytes of all parts, where the bar ends."""
        return sum(self.parts.values())


def training_bars(sheet: CostSheet) -> tuple[Bar, ...]:
    """A bar per way of checkpointing."""
    ways: Sequence[Checkpointing] = get_args(Checkpointing)
    return tuple(_training(way, replace(sheet, plan=sheet.plan.but(checkpointing=way))) for way in ways)


def _training(name: str, sheet: CostSheet) -> Bar:
    training = sheet.of("train")
    return Bar(name, training.memory.named, training.devices)


def inference_bars(sheet: CostSheet) -> tuple[Bar, ...]:
    """A bar per format of the weights."""
    return tuple(_inference(format, sheet, size) for format, size in sheet.weights.items())


def training_rows(sheets: Mapping[str, CostSheet]) -> Rows:
    """The peak of a training step of each architecture, and what it holds."""
    bars = {name: _training(name, sheet) for name, sheet in sheets.items()}
    parts = dict.fromkeys(part for bar in bars.values() for part in bar.parts)
    whole = {"together": {name: (bar.total, _total(bar)) for name, bar in bars.items()}}
    return whole | {
        part: {name: (bar.parts[part], in_bytes(bar.parts[part])) for name, bar in bars.items() if part in bar.parts}
        for part in parts
    }


def inference_rows(sheets: Mapping[str, CostSheet]) -> Rows:
    """Weights in three formats with the decode state of each architecture, and that state."""
    bars = {
        format: {name: _inference(format, sheet, sheet.weights[format]) for name, sheet in sheets.items()} for format in SEVERAL
    }
    rows = {format: {name: (bar.total, _total(bar)) for name, bar in of_all.items()} for format, of_all in bars.items()}
    states = {name: bar.parts.get("decode state", 0) for name, bar in bars[SEVERAL[0]].items()}
    shown = {name: (size, in_bytes(size)) for name, size in states.items() if size}
    return rows | ({"decode state, of it": shown} if shown else {})


def _inference(name: str, sheet: CostSheet, weights: int) -> Bar:
    state = sheet.of("prefill").state_bytes
    parts = {"weights": weights} | ({"decode state": state} if state else {})
    return Bar(name, parts, sheet.devices_for(weights + state))


def draw_training(axes: Axes, sheets: Mapping[str, CostSheet], hardware: Hardware) -> None:
    """Draw the memory at the peak of a training step."""
    first = next(iter(sheets.values()))
    if len(sheets) == 1:
        _draw(axes, training_bars(first), hardware, "peak memory of training, by checkpointing")
    else:
        title = f"peak memory of training, checkpointing {first.plan.checkpointing}"
        draw_rows(axes, training_rows(sheets), list(sheets), hardware, title)


def draw_inference(axes: Axes, sheets: Mapping[str, CostSheet], hardware: Hardware) -> None:
    """Draw weights and decode state."""
    title = "memory of inference, by format of weights"
    if len(sheets) == 1:
        _draw(axes, inference_bars(next(iter(sheets.values()))), hardware, title)
    else:
        draw_rows(axes, inference_rows(sheets), list(sheets), hardware, title)


def _draw(axes: Axes, bars: Sequence[Bar], hardware: Hardware, title: str) -> None:
    """Bars from the top down, each with its total; a dashed line at the device's usable memory."""
    kinds = list(dict.fromkeys(part for bar in bars for part in bar.parts))
    for kind in kinds:
        lefts = [float(sum(size for part, size in bar.parts.items() if kinds.index(part) < kinds.index(kind))) for bar in bars]
        widths = [float(bar.parts.get(kind, 0)) for bar in bars]  # beyond 2^63 a picture takes no whole numbers
        axes.barh(
            range(len(bars)), widths, left=lefts, height=0.62, color=MEMORY[kind], edgecolor="white", linewidth=0.6, label=kind
        )
    for i, bar in enumerate(bars):
        axes.annotate(
            _total(bar), (float(bar.total), i), (8, 0), textcoords="offset points", va="center", fontsize=8.5, bbox=BEHIND
        )
    longest = max(bar.total for bar in bars)
    usable = f"memory of one {hardware.title} for tensors: {in_bytes(hardware.usable_memory)}"
    far = hardware.usable_memory > FAR * longest
    if not far:
        axes.axvline(hardware.usable_memory, color=INK, linestyle="--", linewidth=1.1, label=usable)
    axes.set_xlim(0, max(longest, 0 if far else hardware.usable_memory) * 1.42)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(_locator())
    axes.xaxis.set_major_formatter(lambda value, _: in_bytes(value) if value else "0")
    axes.grid(axis="x")
    axes.set_title(title)
    below(axes)
    if far:
        axes.set_xlabel(f"all far below the {usable}", color=FAINT)


def _total(bar: Bar) -> str:
    """The label of a bar: its bytes, and its devices where they are several."""
    return in_bytes(bar.total) + (f": {bar.devices:,} devices" if bar.devices > 1 else "")


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)
