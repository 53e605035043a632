"""Which component the FLOPs of a forward pass go to, as the input grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anyformer.costs.roofline import KernelTime, StepTime
from anyformer.costs.sheet import CostSheet
from anyformer.pictures.costs.state import contexts
from anyformer.pictures.style import FAINT, PALETTE, below, length_axis, line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 0.01
"""Share that a component must reach somewhere to have an area of its own."""
REST = "the rest"
MIXING = ".mixing"
"""Ends the name of what is computed between positions: scores and values, or a recurrence."""


def part_of(operation: KernelTime) -> str:
    """`decoder.attention.mixing` of what a sublayer computes between positions, else the component: `decoder.attention`."""
    return operation.component + (MIXING if operation.unit == "attention" else "")


def parts_shown(sheet: CostSheet, names: Iterable[str]) -> dict[str, str]:
    """`attention mixing` and, beside it, `attention products`: without the stack where one alone has it."""
    kept = list(dict.fromkeys(names))
    tails = {name: _without_stack(sheet, name) for name in kept}
    alone = Counter(tails.values())
    short = {name: tail if alone[tail] == 1 else name for name, tail in tails.items()}
    return {name: _said(own) + (" products" if f"{name}{MIXING}" in kept else "") for name, own in short.items()}


def _without_stack(sheet: CostSheet, name: str) -> str:
    stacks = (f"{stack}." for stack in sheet.architecture.stacks)
    return next((name.removeprefix(stack) for stack in stacks if name.startswith(stack)), name)


def _said(name: str) -> str:
    return name.replace(".", " ").replace("_", " ")


def forward(sheet: CostSheet, length: int) -> dict[str, int]:
    """FLOPs of reading so many positions by component, of the pairs that the masks allow."""
    source = sheet.architecture.source_of(length)
    found: dict[str, int] = {}
    for operation in timed(replace(sheet, mode="prefill", length=length, source=source)).operations:
        if operation.flops.exact:
            found[part_of(operation)] = found.get(part_of(operation), 0) + operation.flops.exact
    return found


def shares(sheet: CostSheet) -> tuple[tuple[int, ...], dict[str, list[float]]]:
    """Lengths, and each component's share at each: what is small everywhere as the rest, what mixes positions last."""
    lengths = contexts(sheet)
    counted = [forward(sheet, length) for length in lengths]
    names = sorted(dict.fromkeys(name for each in counted for name in each), key=lambda name: name.endswith(MIXING))
    found = {name: [each.get(name, 0) / sum(each.values()) for each in counted] for name in names}
    largest = sorted(found, key=lambda name: -max(found[name]))
    small = [name for name, values in found.items() if max(values) < SMALL or name in largest[len(PALETTE) :]]
    called = parts_shown(sheet, (name for name in names if name not in small))
    rest = {REST: [sum(found[name][i] for name in small) for i in range(len(lengths))]} if small else {}
    return lengths, rest | {called[name]: found[name] for name in names if name not in small}


def mixing_share(sheet: CostSheet) -> tuple[tuple[int, ...], list[float]]:
    """Lengths, and at each the share of what is computed between positions."""
    lengths = contexts(sheet)
    counted = [forward(sheet, length) for length in lengths]
    return lengths, [sum(n for name, n in each.items() if name.endswith(MIXING)) / sum(each.values()) for each in counted]


def timed(sheet: CostSheet) -> StepTime:
    """The sheet's step on its hardware."""
    assert sheet.time is not None, "priced on hardware"
    return sheet.time


def draw_shares(axes: Axes, sheets: Mapping[str, CostSheet]) -> None:
    """Areas of one architecture; of several the share of attention's mixing as lines."""
    if len(sheets) == 1:
        (sheet,) = sheets.values()
        lengths, found = shares(sheet)
        named = [name for name in found if name != REST]
        colours = [PALETTE[named.index(name) % len(PALETTE)] if name in named else FAINT for name in found]
        axes.stackplot(lengths, *found.values(), labels=list(found), colors=colours, edgecolor="white", linewidth=0.8)
        axes.set_title("FLOPs of a forward pass by component")
        axes.set_ylim(0, 1)
    else:
        for i, (name, sheet) in enumerate(sheets.items()):
            lengths, values = mixing_share(sheet)
            axes.plot(lengths, values, label=name, marker=".", **line_of(i))
        lengths = tuple(sorted({each for sheet in sheets.values() for each in contexts(sheet)}))
        axes.set_title("share of attention mixing in FLOPs")
        axes.set_ylim(0, None)
        axes.grid()
    length_axis(axes, lengths, "length (tokens)")
    below(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
