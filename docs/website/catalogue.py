"""The page of the catalogue: its entries by shape and lineage, with their columns and sources, from the index."""

from __future__ import annotations

from collections.abc import Iterable

from anyformer.catalogue import listing
from anyformer.catalogue.row import Listed
from page_text import table

HEADS = (
    "name",
    "year",
    "layers",
    "width",
    "parameters",
    "active",
    "attention",
    "window",
    "position",
    "norm",
    "activation",
    "experts",
)
BEGINNING = """# All entries

{count} published architectures of {lineages} lineages, as `anyformer list --exact` prints them, from the descriptions. `anyformer show NAME`
says what one is made of, `anyformer cost NAME` what it costs; [what is left out](../catalogue.md) has a page. `~`: something of it is
not public or not described, and a stand-in is counted.
"""


def page() -> str:
    """The page as Markdown."""
    entries = listing()
    lineages: dict[str, list[Listed]] = {}
    for entry in entries:
        lineages.setdefault(entry.lineage, []).append(entry)
    parts = [BEGINNING.format(count=len(entries), lineages=len(lineages))]
    parts += [
        f"## {lineage.replace('_', ' ')}\n\n{_table(found)}\n{_sources(found)}" for lineage, found in sorted(lineages.items())
    ]
    return "\n".join(parts)


def _table(entries: Iterable[Listed]) -> str:
    return table(HEADS, (_row(entry) for entry in entries))


def _row(entry: Listed) -> tuple[object, ...]:
    columns, guess = entry.columns, "~" if entry.stand_in else ""
    chosen = f"{columns.chosen}/{columns.experts}" if columns.experts else ""
    return (
        f"`{entry.name}`", entry.year, columns.layers, f"{columns.width:,}", f"{guess}{columns.parameters:,}",
        f"{guess}{columns.active:,}", columns.attention, columns.window, columns.position, f"{columns.norm}, {columns.placement}",
        columns.activation, chosen,
    )  # fmt: skip


def _sources(entries: Iterable[Listed]) -> str:
    return "".join(f"- `{entry.name}` ({entry.organisation}): {entry.summary}. {entry.source}.\n" for entry in entries)
