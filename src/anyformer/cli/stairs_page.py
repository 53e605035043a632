"""The stairs between architectures on a page: a table of what every step adds, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from anyformer.cli.pages import BlockTable, Item, Paragraph
from anyformer.costs.figures import scaled
from anyformer.costs.priced_stairs import PricedStairs, priced_stairs, step_figures
from anyformer.costs.pricing import cost
from anyformer.costs.rows import PageLine
from anyformer.describe.value import as_data
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.precision import Bf16

COLUMNS = {
    "parameters": ("parameters", ""),
    "active": ("used by a token", ""),
    "flops_per_token": ("FLOPs", ""),
    "elementwise_per_token": ("element-wise", ""),
    "state": ("decode state", "B"),
}
"""Figures of a step in the table, each with its head and unit."""
NOTHING = "-"


@dataclass(frozen=True)
class NamedStairs:
    """Stairs between two architectures by their names."""

    left: str
    right: str
    priced: PricedStairs

    def data(self) -> dict[str, Any]:
        """Plain data: the figures of both ends, of every step, and what it adds; values by path and in words."""
        steps = [
            {
                "label": each.step.label,
                "changes": [{"path": path, "from": as_data(old), "to": as_data(new)} for path, old, new in each.step.moved],
                "words": [{"what": change.what, "from": change.left, "to": change.right} for change in each.words],
                "figures": each.figures,
                "deltas": each.deltas,
            }
            for each in self.priced.steps
        ]
        return {"from": self.left, "to": self.right, "start": self.priced.start, "steps": steps, "end": self.priced.end}


def climbed(named: Sequence[tuple[str, Architecture]], *, batch: int, length: int) -> list[NamedStairs]:
    """The stairs from each architecture to the next, priced in bf16 for `batch` texts of `length` tokens."""

    def price(made: Architecture) -> Mapping[str, float | None]:
        return step_figures(cost(made, batch=batch, length=length, mode="prefill", plan=Plan(precision=Bf16())))

    return [NamedStairs(left, right, priced_stairs(start, end, price)) for (left, start), (right, end) in pairwise(named)]


def pages(stairs: Sequence[NamedStairs], title: str) -> Iterator[Item]:
    """All stairs, one below the other, and what their figures are."""
    for each in stairs:
        yield from page(each)
        yield PageLine("")
    yield Paragraph(f"{title}; FLOPs and element-wise operations: of prefill, per token.")


def page(stairs: NamedStairs) -> Iterator[Item]:
    """A table from the figures of one end to those of the other, and below it the values that a step changes."""
    steps = stairs.priced.steps
    if not steps:
        yield Paragraph(f"From {stairs.left} to {stairs.right}: nothing differs; the two are the same architecture.")
        return
    yield Paragraph(f"From {stairs.left} to {stairs.right} in {len(steps):,} step{'s' * (len(steps) > 1)}")
    yield PageLine("")
    yield _table(stairs)
    yield from (PageLine(""), PageLine("What a step changes", strong=True))
    for number, each in enumerate(steps, 1):
        words = "; ".join(f"{change.what}: {change.left} -> {change.right}" for change in each.words)
        yield Paragraph(words, f"{number:3}  ", " " * 7)


def _table(stairs: NamedStairs) -> BlockTable:
    """Figures of the ends, and what every step adds; parameters that a token uses where these are not all."""
    priced = stairs.priced
    ends = (priced.start, priced.end)
    names = [
        name for name in COLUMNS if name != "active" or any(figures["active"] != figures["parameters"] for figures in ends)
    ]
    rows = [
        (stairs.left, *_row(priced.start, names, _figure)),
        *((f"{number:3}  {each.step.label}", *_row(each.deltas, names, _delta)) for number, each in enumerate(priced.steps, 1)),
        (stairs.right, *_row(priced.end, names, _figure)),
    ]
    heads = tuple(COLUMNS[name][0] for name in names)
    return BlockTable(("", *heads), tuple(rows), heads)


def _row(figures: Mapping[str, float | None], names: Sequence[str], say: Callable[[float, str], str]) -> Iterator[str]:
    for name in names:
        number = figures[name]
        yield NOTHING if number is None else say(number, COLUMNS[name][1])


def _figure(number: float, unit: str) -> str:
    return f"{scaled(number)}{unit}".strip()


def _delta(number: float, unit: str) -> str:
    """`+193.9 M`; nothing where nothing is added."""
    return f"{'+' if number > 0 else '-'}{_figure(abs(number), unit)}" if number else NOTHING
