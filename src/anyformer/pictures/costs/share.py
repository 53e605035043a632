"""FLOPs of a forward pass by component, as the input grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anyformer.costs.page import timed
from anyformer.costs.roofline import KernelTime
from anyformer.costs.sheet import CostSheet
from anyformer.pictures.costs.meanings import COMPONENTS, of_architecture, of_components
from anyformer.pictures.costs.state import contexts
from anyformer.pictures.style import FAINT, below, length_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 0.01
"""Share that a component must reach at some length to have an area of its own."""
REST = "the rest"
MIXING = ".mixing"
"""The end of the name of work between positions: scores and values, or a recurrence."""


def part_of(operation: KernelTime) -> str:
    """`decoder.attention.mixing` for work between positions, else the component: `decoder.attention`."""
    return operation.component + (MIXING if operation.unit == "attention" else "")


def parts_shown(sheet: CostSheet, names: Iterable[str]) -> dict[str, str]:
    """Names in words: `attention mixing` and, beside it, `attention products`; without the stack if one alone has the name."""
    known = list(dict.fromkeys(names))
    tails = {name: _without_stack(sheet, name) for name in known}
    counts = Counter(tails.values())
    short = {name: tail if counts[tail] == 1 else name for name, tail in tails.items()}
    return {name: _words(own) + (" products" if f"{name}{MIXING}" in known else "") for name, own in short.items()}


def _without_stack(sheet: CostSheet, name: str) -> str:
    stacks = (f"{stack}." for stack in sheet.architecture.stacks)
    return next((name.removeprefix(stack) for stack in stacks if name.startswith(stack)), name)


def _words(name: str) -> str:
    return name.replace(".", " ").replace("_", " ")


def colours_of(sheet: CostSheet) -> dict[str, str]:
    """The colours of components, the largest in FLOPs of reading the sheet's length, and work between positions last."""
    counts = forward(sheet, sheet.length)
    largest = sorted(counts, key=lambda name: -counts[name])[: len(COMPONENTS)]
    return of_components(sorted(sorted(largest, key=[*counts].index), key=lambda name: name.endswith(MIXING)))


def forward(sheet: CostSheet, length: int) -> Counter[str]:
    """FLOPs of reading so many positions by component, of the pairs that the masks allow."""
    source = sheet.architecture.source_of(length)
    counts = Counter[str]()
    for operation in timed(replace(sheet, mode="prefill", length=length, source=source)).operations:
        if operation.flops.exact:
            counts[part_of(operation)] += operation.flops.exact
    return counts


def shares(sheet: CostSheet) -> tuple[tuple[int, ...], dict[str, list[float]]]:
    """Lengths, and each component's shares at them: small components as the rest, work between positions last."""
    lengths = contexts(sheet)
    counts = [forward(sheet, length) for length in lengths]
    names = sorted(dict.fromkeys(name for count in counts for name in count), key=lambda name: name.endswith(MIXING))
    values = {name: [count[name] / count.total() for count in counts] for name in names}
    coloured = colours_of(sheet)
    small = [name for name in names if max(values[name]) < SMALL or name not in coloured]
    titles = parts_shown(sheet, (name for name in names if name not in small))
    rest = {REST: [sum(values[name][i] for name in small) for i in range(len(lengths))]} if small else {}
    return lengths, rest | {title: values[name] for name, title in titles.items()}


def mixing_share(sheet: CostSheet) -> tuple[tuple[int, ...], list[float]]:
    """Lengths, and the share of work between positions at each."""
    lengths = contexts(sheet)
    counts = [forward(sheet, length) for length in lengths]
    return lengths, [sum(n for name, n in count.items() if name.endswith(MIXING)) / count.total() for count in counts]


def draw_shares(axes: Axes, sheets: Mapping[str, CostSheet]) -> None:
    """Areas of one architecture's components, or lines of several architectures' share of attention mixing."""
    if len(sheets) == 1:
        (sheet,) = sheets.values()
        lengths, areas = shares(sheet)
        hues = colours_of(sheet)
        of_title = {title: hues[name] for name, title in parts_shown(sheet, hues).items()}
        colours = [of_title.get(title, FAINT) for title in areas]
        axes.stackplot(lengths, *areas.values(), labels=list(areas), colors=colours, edgecolor="white", linewidth=0.8)
        axes.set_title("FLOPs of a forward pass by component")
        axes.set_ylim(0, 1)
    else:
        for i, (name, sheet) in enumerate(sheets.items()):
            lengths, values = mixing_share(sheet)
            axes.plot(lengths, values, label=name, markersize=4, **of_architecture(i))
        lengths = tuple(sorted({length for sheet in sheets.values() for length in contexts(sheet)}))
        axes.set_title("share of attention mixing in FLOPs")
        axes.set_ylim(0, None)
        axes.grid()
    length_axis(axes, lengths, "length (tokens)")
    below(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
