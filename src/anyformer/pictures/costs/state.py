"""Decode state against the context: full caches grow without end, rings and recurrent states are level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anyformer.costs.inference import Growth
from anyformer.costs.page import longest
from anyformer.costs.sheet import CostSheet
from anyformer.pictures.costs.meanings import MEMORY, of_architecture
from anyformer.pictures.style import INK, below, doublings, in_bytes, length_axis, line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONTEXT = 128 * 1024
"""The longest context of a model without a position table."""
FIRST, SHORTEST = 10, 16
"""Doublings from the first length to the last, and the shortest first length."""
WAYS: Mapping[Growth, str] = {
    "every token": "of it, grows with every token",
    "to its window": "of it, grows to its window",
    "never": "of it, of one size",
    "with the source": "of it, of the source",
}


@dataclass(frozen=True)
class Curve:
    """Bytes at every context."""

    name: str
    contexts: tuple[int, ...]
    sizes: tuple[int, ...]


def contexts(sheet: CostSheet) -> tuple[int, ...]:
    """Doublings up to the end of the position table, or to 128k and the sheet's length."""
    last = longest(sheet.architecture) or max(CONTEXT, sheet.length)
    return doublings(max(SHORTEST, last >> FIRST), last)


def curves(sheets: Mapping[str, CostSheet]) -> tuple[Curve, ...]:
    """A curve per architecture; for a single one whose memories grow in several ways, also one per way."""
    decoding = {name: sheet for name, sheet in sheets.items() if "decode" in sheet.modes}
    made = []
    for name, sheet in decoding.items():
        at = contexts(sheet)
        states = [replace(sheet, mode="prefill", length=context).state for context in at]
        made.append(Curve(name, at, tuple(state.total for state in states)))
        # The longest context shows how a memory grows: before its window is full, a ring grows like any other.
        grows = {memory.name: memory.grows for memory in states[-1].memories}
        ways = dict.fromkeys(grows.values())
        if len(sheets) == 1 and len(ways) > 1:
            for way in ways:
                sizes = (sum(part.bytes for part in state.memories if grows[part.name] == way) for state in states)
                made.append(Curve(WAYS[way], at, tuple(sizes)))
    return tuple(made)


def draw_state(axes: Axes, sheets: Mapping[str, CostSheet]) -> None:
    """Curves on logarithmic axes: memories that grow with every token rise, bounded ones are level."""
    first = next(iter(sheets.values()))
    drawn = curves(sheets)
    for i, curve in enumerate(drawn):
        own = line_of(i) | {"color": MEMORY["decode state"], "marker": "."}
        style = own if len(sheets) == 1 else of_architecture([*sheets].index(curve.name))
        axes.plot(curve.contexts, curve.sizes, label=curve.name, markersize=4, **style)
    axes.set_yscale("log")
    lengths = sorted({context for curve in drawn for context in curve.contexts})
    length_axis(axes, lengths, "context (tokens)")
    axes.yaxis.set_major_locator(_decades(axes))
    axes.yaxis.set_major_formatter(lambda value, _: in_bytes(value))
    axes.tick_params(axis="y", which="minor", length=0)
    axes.grid()
    if len(sheets) == 1:
        _memory_left(axes, first)
    axes.set_title(f"decode state of {first.batch:,} sequence{'s' if first.batch > 1 else ''}, {first.unit}")
    below(axes)


def _decades(axes: Axes) -> Any:
    """Powers of ten, with steps between them where there are few."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_ylim()
    return LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,))


def _memory_left(axes: Axes, sheet: CostSheet) -> None:
    """A line at the memory that the device has left beside 16-bit weights, if it lies near the curves."""
    if sheet.hardware is None:
        return
    left = sheet.hardware.usable_memory - sheet.weights["bf16"]
    low, high = axes.get_ylim()
    if low < left < 4 * high:
        axes.axhline(left, color=INK, linestyle=":", linewidth=1.1, label=f"left beside bf16 weights: {in_bytes(left)}")
        axes.set_ylim(low, max(high, 1.5 * left))
