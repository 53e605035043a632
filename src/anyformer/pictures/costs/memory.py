"""Memory as stacked bars: of training by what it holds, of inference by how weights are stored, beside a device's room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from anyformer.costs.hardware import Hardware
from anyformer.costs.sheet import CostSheet
from anyformer.pictures.style import FAINT, INK, PALETTE, below, in_bytes
from anyformer.plan import Checkpointing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEVERAL = ("bf16", "fp8", "int4")
"""Formats of weights drawn where several architectures stand side by side."""
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
FAR = 2.5
"""How many times the longest bar a device's room may be before its line is left out."""


@dataclass(frozen=True)
class Bar:
    """Bytes of `parts`, one on top of the other, and how many `devices` hold them."""

    name: str
    parts: Mapping[str, int]
    devices: int

    @property
    def total(self) -> int:
        """Where it ends to the right."""
        return sum(self.parts.values())


def training_bars(sheets: Mapping[str, CostSheet]) -> tuple[Bar, ...]:
    """Of one architecture a bar for each way of checkpointing, of several one for each."""
    if len(sheets) > 1:
        return tuple(_training(name, sheet) for name, sheet in sheets.items())
    (sheet,) = sheets.values()
    ways: Sequence[Checkpointing] = get_args(Checkpointing)
    return tuple(_training(way, replace(sheet, plan=sheet.plan.but(checkpointing=way))) for way in ways)


def _training(name: str, sheet: CostSheet) -> Bar:
    training = sheet.of("train")
    return Bar(name, training.memory.named, training.devices)


def inference_bars(sheets: Mapping[str, CostSheet]) -> tuple[Bar, ...]:
    """A bar for each format of the weights: all of one architecture, three of each of several, the first with its name."""
    if len(sheets) == 1:
        (sheet,) = sheets.values()
        return tuple(_inference(format, sheet, size) for format, size in sheet.weights.items())
    return tuple(
        _inference(f"{name}  {format}" if format == SEVERAL[0] else format, sheet, sheet.weights[format])
        for name, sheet in sheets.items()
        for format in SEVERAL
    )


def _inference(name: str, sheet: CostSheet, weights: int) -> Bar:
    state = sheet.of("prefill").state_bytes
    parts = {"weights": weights} | ({"decode state": state} if state else {})
    return Bar(name, parts, sheet.devices_for(weights + state))


def draw_training(axes: Axes, sheets: Mapping[str, CostSheet], hardware: Hardware) -> None:
    """What a training step holds when it holds most."""
    way = "by checkpointing" if len(sheets) == 1 else f"checkpointing {next(iter(sheets.values())).plan.checkpointing}"
    _draw(axes, training_bars(sheets), hardware, f"peak memory of training, {way}")


def draw_inference(axes: Axes, sheets: Mapping[str, CostSheet], hardware: Hardware) -> None:
    """Weights and decode state."""
    _draw(axes, inference_bars(sheets), hardware, "memory of inference, by format of weights")


def _draw(axes: Axes, bars: Sequence[Bar], hardware: Hardware, title: str) -> None:
    """Bars from the top down, each with its total; a dashed line where the device's room ends."""
    kinds = list(dict.fromkeys(part for bar in bars for part in bar.parts))
    for kind, colour in zip(kinds, PALETTE, strict=False):
        lefts = [float(sum(size for part, size in bar.parts.items() if kinds.index(part) < kinds.index(kind))) for bar in bars]
        widths = [float(bar.parts.get(kind, 0)) for bar in bars]  # beyond 2^63 a picture takes no whole numbers
        axes.barh(range(len(bars)), widths, left=lefts, height=0.62, color=colour, edgecolor="white", linewidth=0.6, label=kind)
    for i, bar in enumerate(bars):
        axes.annotate(
            _told(bar), (float(bar.total), i), (8, 0), textcoords="offset points", va="center", fontsize=8.5, bbox=BEHIND
        )
    longest = max(bar.total for bar in bars)
    far = hardware.usable_memory > FAR * longest
    if not far:
        axes.axvline(
            hardware.usable_memory,
            color=INK,
            linestyle="--",
            linewidth=1.1,
            label=f"room of one {hardware.title}: {in_bytes(hardware.usable_memory)}",
        )
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
        axes.set_xlabel(f"all far below the room of one {hardware.title}: {in_bytes(hardware.usable_memory)}", color=FAINT)


def _told(bar: Bar) -> str:
    """What a bar comes to, and on how many devices."""
    return in_bytes(bar.total) + (f": {bar.devices:,} devices" if bar.devices > 1 else "")


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)
