"""`anyformer list`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.catalogue.row import Listed


class Sort(StrEnum):
    """What the list can be sorted by."""

    PARAMETERS = "parameters"
    ACTIVE = "active"
    YEAR = "year"
    NAME = "name"


KEYS: dict[Sort, Callable[[Listed], Any]] = {
    Sort.PARAMETERS: lambda entry: entry.columns.parameters,
    Sort.ACTIVE: lambda entry: entry.columns.active,
    Sort.YEAR: lambda entry: entry.year,
    Sort.NAME: lambda entry: entry.name,
}


def run(
    contains: Annotated[
        str, typer.Argument(help="Only names, organisations, summaries or sources that contain this.", metavar="[TEXT]")
    ] = "",
    since: Annotated[int, typer.Option(help="Only from this year on.")] = 0,
    shape: Annotated[str, typer.Option(help="Only of this shape: decoder-only, encoder-only, encoder-decoder, latent.")] = "",
    norm: Annotated[str, typer.Option(help="Only with this norm or placement: rms, layer, pre, post, sandwich, output.")] = "",
    position: Annotated[str, typer.Option(help="Only with these positions: rope, nope, alibi, learned, relative.")] = "",
    activation: Annotated[str, typer.Option(help="Only with this activation: swiglu, geglu, gelu, relu.")] = "",
    attention: Annotated[str, typer.Option(help="Only with this attention: mha, gqa, mqa, mla, delta, local.")] = "",
    moe: Annotated[bool, typer.Option("--moe", help="Only mixtures of experts.")] = False,
    sort: Annotated[Sort | None, typer.Option(help="Sort by this, smallest first.")] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Summary, source and stand-ins instead of the columns.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Names alone, one a line, for scripts.")] = False,
) -> None:
    """List the architectures of the catalogue: what they are made of, and their exact parameter counts."""
    from rich.console import Console

    from anyformer.catalogue import listing
    from anyformer.describe import UserError

    wanted = {
        "text": contains, "shape": shape, "norm": norm, "position": position, "activation": activation, "attention": attention,
    }  # fmt: skip
    found = [entry for entry in listing() if entry.year >= since and (entry.columns.experts > 0 or not moe)]
    found = [entry for entry in found if _has(entry, wanted)]
    if not found:
        asked = [f"{place} {word!r}" for place, word in wanted.items() if word]
        asked += [f"since {since}"] * (since > 0) + ["mixtures of experts"] * moe
        raise UserError(f"no architecture has {', '.join(asked)}; `anyformer list` shows all {len(listing())}")
    if sort is not None:
        found.sort(key=KEYS[sort])
    if names:
        print("\n".join(entry.name for entry in found))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)  # a pipe has no width to wrap at
    console.print(_sources(found) if sources else _columns(found))


def _has(entry: Listed, wanted: dict[str, str]) -> bool:
    """Whether each wanted word stands where it belongs, in any case."""
    columns = entry.columns
    places = {
        "text": f"{entry.name} {entry.organisation} {entry.summary} {entry.source}",
        "shape": columns.shape,
        "norm": f"{columns.norm} {columns.placement}",
        "position": columns.position,
        "activation": columns.activation,
        "attention": f"{columns.attention} {columns.reach}",
    }
    return all(word.lower() in places[place].lower() for place, word in wanted.items())


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name in ("parameters", "active") else "left", no_wrap=name == "name")
    return table


def _columns(found: list[Listed]) -> Table:
    table = _table(
        "name", "year", "parameters", "active", "shape", "norm", "position", "attention", "reach", "activation", "experts",
        "tricks",
    )  # fmt: skip
    for entry in found:
        columns = entry.columns
        parallel = " parallel" if columns.wiring == "parallel" else ""
        active = "" if columns.active == columns.parameters else f"{columns.active:,}"
        experts = f"{columns.chosen}/{columns.experts}" if columns.experts else ""
        mark = " *" if entry.stand_in else ""
        norm = f"{columns.placement} {columns.norm}{parallel}"
        table.add_row(
            entry.name + mark, str(entry.year), f"{columns.parameters:,}", active, columns.shape, norm, columns.position,
            columns.attention, columns.reach, columns.activation, experts, ", ".join(columns.tricks),
        )  # fmt: skip
    if any(entry.stand_in for entry in found):
        table.caption = "* not all is public: --sources says what was put in its place"
        table.caption_justify = "left"
    return table


def _sources(found: list[Listed]) -> Table:
    table = _table("name", "year", "organisation", "what", "source")
    for entry in found:
        summary = f"{entry.summary}; stand-in: {entry.stand_in}" if entry.stand_in else entry.summary
        table.add_row(entry.name, str(entry.year), entry.organisation, summary, entry.source)
    return table
