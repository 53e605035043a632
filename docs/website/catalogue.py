"""The page of the catalogue: its entries by shape and lineage, with their columns and sources, from the index."""

from __future__ import annotations

from collections.abc import Iterable

from page_text import table

from anyformer.catalogue import listing
from anyformer.catalogue.row import Listed

HEADS = ("name", "year", "layers x width", "parameters", "of a token", "attention", "position", "norm", "activation", "experts")
BEGINNING = """---
hide:
  - navigation
---

# All entries

{count} published architectures of {lineages} lineages, as `anyformer list --exact` prints them, computed from the descriptions.
`anyformer show NAME` says what one is made of, `anyformer cost NAME` what it costs. `~`: something of it is not public or not
described, and a stand-in is counted. [What is left out](../catalogue.md).
"""


def page() -> str:
    """The page as Markdown."""
    entries = listing()
    lineages: dict[str, list[Listed]] = {}
    for entry in entries:
        lineages.setdefault(entry.lineage, []).append(entry)
    parts = [BEGINNING.format(count=len(entries), lineages=len(lineages))]
    for lineage, found in sorted(lineages.items()):
        title = lineage.replace("_", " ").capitalize()
        parts.append(f"## {title}\n\n{table(HEADS, map(_row, found))}\n{_sources(found)}")
    return "\n".join(parts)


def _row(entry: Listed) -> tuple[object, ...]:
    columns, guess = entry.columns, "~" if entry.stand_in else ""
    return (
        f"`{entry.name}`",
        entry.year,
        f"{columns.layers} x {columns.width:,}",
        f"{guess}{columns.parameters:,}",
        f"{guess}{columns.active:,}" if columns.active != columns.parameters else "",
        columns.attention if columns.window == "full" else f"{columns.attention}, {columns.window}",
        columns.position,
        f"{columns.norm}, {columns.placement}",
        columns.activation,
        f"{columns.chosen}/{columns.experts}" if columns.experts else "",
    )


def _sources(entries: Iterable[Listed]) -> str:
    return "".join(f"- `{entry.name}` ({entry.organisation}): {entry.summary}. {entry.source}.\n" for entry in entries)
