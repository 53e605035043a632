"""Sizes of several architectures as points on one logarithmic axis, each with its number beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyformer.costs.hardware import Hardware
from anyformer.pictures.costs.meanings import of_architecture
from anyformer.pictures.style import FAINT, INK, below, in_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Mapping[str, Mapping[str, tuple[int, str]]]
"""By title, then by architecture: bytes, and these in words."""
BETWEEN = 0.8
"""Space between rows, in lines."""
ROOM = 0.75, 12.0
"""The axis goes on beyond the largest by this share of its decades, and by this factor at least: numbers stand there."""
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
LINE, AROUND = 0.128, 1.75
"""Inches of a line, and around all of them."""


def inches(rows: Rows, architectures: int) -> float:
    """The height of a panel in which no number stands over another."""
    return AROUND + LINE * len(rows) * (architectures + BETWEEN)


def draw_rows(axes: Axes, rows: Rows, names: Sequence[str], hardware: Hardware, title: str) -> None:
    """A row per title with a line per architecture; a dashed line at the device's usable memory."""
    sizes = [size for row in rows.values() for size, _ in row.values()]
    low, high = min(*sizes, hardware.usable_memory) / 2, max(*sizes, hardware.usable_memory)
    axes.set_xscale("log")
    axes.set_xlim(low, high * max((high / low) ** ROOM[0], ROOM[1]))
    middles = []
    for number, row in enumerate(rows.values()):
        top = number * (len(names) + BETWEEN)
        middles.append(top + (len(names) - 1) / 2)
        for i, name in enumerate(names):
            if name not in row:
                continue
            size, said = row[name]
            style = of_architecture(i)
            axes.plot([low, size], [top + i] * 2, color=FAINT, linewidth=0.5, zorder=1)
            axes.plot(float(size), top + i, style["marker"], color=style["color"], markersize=5.5, zorder=3)
            axes.annotate(
                said,
                (float(size), top + i),
                (6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                zorder=2,
                bbox=BEHIND,
            )
    for i, name in enumerate(names):
        style = of_architecture(i)
        axes.plot([], [], style["marker"], color=style["color"], markersize=5.5, label=name)
    usable = f"memory of one {hardware.title} for tensors: {in_bytes(hardware.usable_memory)}"
    axes.axvline(hardware.usable_memory, color=INK, linestyle="--", linewidth=1.1, label=usable, zorder=0)
    axes.set_yticks(middles, list(rows))
    axes.set_ylim(len(rows) * (len(names) + BETWEEN) - BETWEEN / 2 - 0.3, -0.8)
    axes.tick_params(axis="y", length=0)
    axes.minorticks_off()
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: in_bytes(value))
    axes.grid(axis="x")
    axes.set_title(title)
    below(axes)
