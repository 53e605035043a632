"""`anyformer diff` of more than two architectures: each difference from the first in one line, all of them abreast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from anyformer.cli.aligned import aligned, wrapped

if TYPE_CHECKING:
    from anyformer.differences import Change, Difference

SAME = "same"


def abreast(first: str, others: Mapping[str, Difference], title: str, width: int) -> Iterator[str]:
    """Columns of the catalogue, then every value, then the costs: that of the first, then those of the others."""
    yield from wrapped(f"From {first} to {', '.join(others)}, in this order; {SAME} is as in {first}.", width)
    found = list(others.values())
    for heading, parts in (
        ("What they are", [each.summary for each in found]),
        ("What differs", [each.details for each in found]),
    ):
        if rows := _rows(parts):
            yield from ("", typer.style(heading, bold=True))
        for what, start, ends in rows:
            yield from wrapped(f"{what}: {start} -> {' | '.join(ends)}", width, "  ")
    yield from ("", typer.style(title, bold=True))
    costs = [(what, start, *ends) for what, start, ends in _rows([each.costs for each in found])]
    for line in aligned([("", first, *others), *costs], (False, *(True for _ in range(len(others) + 1)))):
        yield f"  {line}"


def _rows(parts: list[tuple[Change, ...]]) -> list[tuple[str, str, list[str]]]:
    """(what differs anywhere, its value in the first, its values in the others), in the order of first mention."""
    starts = {change.what: change.left for changes in reversed(parts) for change in changes}
    ends = [{change.what: change.right for change in changes} for changes in parts]
    order = dict.fromkeys(change.what for changes in parts for change in changes)
    return [(what, starts[what], [each.get(what, SAME) for each in ends]) for what in order]
