"""`anyformer diff` of more than two architectures: each difference from the first in one line, all of them abreast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from anyformer.cli.aligned import aligned
from anyformer.cli.pages import Item, Paragraph
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.costs.difference import Change, Difference

SAME = "same"


def abreast(first: str, others: Mapping[str, Difference], title: str) -> Iterator[Item]:
    """Columns of the catalogue, then every value, then the costs: that of the first, then those of the others."""
    yield Paragraph(f"From {first} to {', '.join(others)}, in this order; {SAME} is as in {first}.")
    found = list(others.values())
    for heading, parts in (
        ("What they are", [each.summary for each in found]),
        ("What differs", [each.details for each in found]),
    ):
        if rows := _rows(parts):
            yield from (PageLine(""), PageLine(heading, strong=True))
        for what, start, ends in rows:
            yield Paragraph(f"{what}: {start} -> {' | '.join(ends)}", "  ")
    yield from (PageLine(""), PageLine(title, strong=True))
    costs = [(what, start, *ends) for what, start, ends in _rows([each.costs for each in found])]
    for line in aligned([("", first, *others), *costs], (False, *(True for _ in range(len(others) + 1)))):
        yield PageLine(f"  {line}")


def _rows(parts: list[tuple[Change, ...]]) -> list[tuple[str, str, list[str]]]:
    """(what differs anywhere, its value in the first, its values in the others), in the order of first mention."""
    starts = {change.what: change.left for changes in reversed(parts) for change in changes}
    ends = [{change.what: change.right for change in changes} for changes in parts]
    order = dict.fromkeys(change.what for changes in parts for change in changes)
    return [(what, starts[what], [each.get(what, SAME) for each in ends]) for what in order]
