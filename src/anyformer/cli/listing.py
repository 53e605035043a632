"""`anyformer list`."""

from __future__ import annotations

import json as jsons
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.aligned import aligned, fitting
from anyformer.cli.arguments import OUTPUT, Json

if TYPE_CHECKING:
    from anyformer.catalogue.row import Listed

EXAMPLES = """
anyformer list
anyformer list gemma
anyformer list --moe --since 2025 --attention mla --sort active
anyformer list --shape encoder-only --position relative
anyformer list llama --sources
"""
FILTER = "Filters"
GUESS = "~"
"""Stands before a number that is not exact, since something of the architecture is not public or not described."""


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
PLACES: dict[str, Callable[[Listed], str]] = {
    "text": lambda entry: f"{entry.name} {entry.organisation} {entry.summary} {entry.source}",
    "shape": lambda entry: entry.columns.shape,
    "norm": lambda entry: f"{entry.columns.norm}+{entry.columns.placement}",
    "position": lambda entry: entry.columns.position,
    "activation": lambda entry: entry.columns.activation,
    "attention": lambda entry: f"{entry.columns.attention}+{'+'.join(word.split()[0] for word in _words(entry.columns.window))}",
}
"""Where each filter looks: words with a plus between them, but for the text."""


def _filter(help: str, metavar: str = "WORD") -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel=FILTER)


def run(
    contains: Annotated[
        str, typer.Argument(help="Show only what has this in its name, organisation, summary or source.", metavar="TEXT")
    ] = "",
    since: Annotated[int | None, _filter("Show only architectures of this year or later.", "YEAR")] = None,
    shape: Annotated[str, _filter("Show only this shape of model: decoder-only, encoder-only, encoder-decoder, latent.")] = "",
    norm: Annotated[
        str, _filter("Show only models with this norm (rms, layer) or place of it (pre, post, sandwich, output).")
    ] = "",
    position: Annotated[
        str, _filter("Show only models with these positions: rope, alibi, learned, relative, sinusoidal, nope.")
    ] = "",
    activation: Annotated[str, _filter("Show only models with this activation: swiglu, geglu, gelu, relu.")] = "",
    attention: Annotated[
        str, _filter("Show only models with this attention: mha, gqa, mqa, mla, delta, lightning, convolution, local.")
    ] = "",
    moe: Annotated[bool, typer.Option("--moe", help="Show only mixtures of experts.", rich_help_panel=FILTER)] = False,
    sort: Annotated[
        Sort | None,
        typer.Option(
            help="Sort by this, the smallest first. By default by lineage.",
            metavar="parameters|active|year|name",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--short",
            help="Print every column with exact counts, or as many columns as fit with short counts. By default short in a "
            "terminal and exact in a pipe.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    sources: Annotated[
        bool,
        typer.Option(
            "--sources",
            help="Print what each architecture is, where its figures stand, and what stands in for those that are not public.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    names: Annotated[bool, typer.Option("--names", help="Print names only, one on each line.", rich_help_panel=OUTPUT)] = False,
    json: Json = False,
) -> None:
    """List the architectures of the catalogue: what they are made of, and how many parameters they have.

    A terminal shows as many columns as fit. A pipe gets every column, with exact counts and one line for each architecture.
    """
    wanted = {
        "text": contains, "shape": shape, "norm": norm, "position": position, "activation": activation, "attention": attention,
    }  # fmt: skip
    found = chosen({place: word for place, word in wanted.items() if word}, since=since, moe=moe)
    if sort is not None:
        found.sort(key=KEYS[sort])
    if json:
        print(jsons.dumps([asdict(entry) for entry in found], indent=2, ensure_ascii=False))
    elif names:
        print("\n".join(entry.name for entry in found))
    elif sources:
        print("\n\n".join(map(_source, found)))
    elif exact or (exact is None and not sys.stdout.isatty()):
        print("\n".join(_table(ALL, found)))
    else:
        typer.echo("\n".join(page(found, shutil.get_terminal_size().columns, grouped=sort is None)))


def chosen(wanted: dict[str, str], *, since: int | None = None, moe: bool = False) -> list[Listed]:
    """The entries that have each wanted word in its place, in any case. Raises `UserError` where there are none."""
    from anyformer.catalogue import listing
    from anyformer.describe import UserError

    entries = listing()
    for place, word in wanted.items():
        if not any(_has(entry, place, word) for entry in entries):
            raise UserError(_unknown(place, word, entries))
    newest = max(entry.year for entry in entries)
    if since is not None and since > newest:
        raise UserError(f"--since {since}: the newest architectures of the catalogue are of {newest}")
    found = [
        entry
        for entry in entries
        if entry.year >= (since or 0)
        and (entry.columns.experts > 0 or not moe)
        and all(_has(entry, place, word) for place, word in wanted.items())
    ]
    if not found:
        asked = [f"--{place} {word}" if place != "text" else repr(word) for place, word in wanted.items()]
        asked += [f"--since {since}"] * (since is not None) + ["--moe"] * moe
        raise UserError(f"no architecture fits all of {', '.join(asked)}: leave one of them out")
    return found


def _has(entry: Listed, place: str, word: str) -> bool:
    return word.lower() in PLACES[place](entry).lower()


def _words(text: str) -> list[str]:
    return [word for word in text.split("+") if word]


def _unknown(place: str, word: str, entries: Iterable[Listed]) -> str:
    """What is wrong with a word that no entry has, and the words that there are."""
    from anyformer.describe import did_you_mean

    if place == "text":
        return (
            f"no architecture has {word!r} in its name, organisation, summary or source; `anyformer list` shows all of them, "
            "and `anyformer list --help` the filters"
        )
    known = dict.fromkeys(each.lower() for entry in entries for each in _words(PLACES[place](entry)))
    return f"--{place}: no architecture has {word!r}{did_you_mean(word.lower(), known)}"


Column = tuple[str, Callable[["Listed"], str]]
NAME: Column = ("name", lambda entry: entry.name)
YEAR: Column = ("year", lambda entry: str(entry.year))
MADE_OF: tuple[Column, ...] = (
    ("attention", lambda entry: entry.columns.attention),
    ("position", lambda entry: entry.columns.position),
    ("activation", lambda entry: entry.columns.activation),
    ("norm", lambda entry: f"{entry.columns.placement} {entry.columns.norm}"),
    ("experts", lambda entry: f"{entry.columns.chosen}/{entry.columns.experts}" if entry.columns.experts else ""),
    ("window", lambda entry: entry.columns.window),
    ("shape", lambda entry: entry.columns.shape),
    ("branches", lambda entry: "parallel" if entry.columns.wiring == "parallel" else ""),
    ("stability", lambda entry: ", ".join(entry.columns.stability)),
)
SHORT: tuple[Column, ...] = (
    NAME,
    YEAR,
    ("params", lambda entry: _count(entry, entry.columns.parameters, short)),
    ("active", lambda entry: _active(entry, short)),
    *MADE_OF,
)
"""The most telling first."""
ALL: tuple[Column, ...] = (
    NAME,
    YEAR,
    ("organisation", lambda entry: entry.organisation),
    ("parameters", lambda entry: _count(entry, entry.columns.parameters, "{:,}".format)),
    ("active", lambda entry: _active(entry, "{:,}".format)),
    *MADE_OF,
)
NUMBERS = ("params", "parameters", "active")


def short(number: int) -> str:
    """Four digits of a count: `8.03 B`."""
    unit, scale = next((pair for pair in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if number >= pair[1]), ("k", 1e3))
    return f"{number / scale:.4g} {unit}"


def _count(entry: Listed, number: int, written: Callable[[int], str]) -> str:
    return f"{GUESS if entry.stand_in else ''}{written(number)}"


def _active(entry: Listed, written: Callable[[int], str]) -> str:
    same = entry.columns.active == entry.columns.parameters
    return "" if same else _count(entry, entry.columns.active, written)


def page(found: Sequence[Listed], width: int, *, grouped: bool) -> Iterator[str]:
    """The table as a terminal of this width shows it, under the names of organisations, and what to type next."""
    columns = [SHORT[i] for i in fitting([[head, *map(cell, found)] for head, cell in SHORT], width)]
    head, *rows = _table(columns, found)
    yield typer.style(head, bold=True)
    groups: dict[str, list[str]] = {}
    for entry, row in zip(found, rows, strict=True):
        groups.setdefault(entry.organisation if grouped else "", []).append(row)
    for organisation, lines in groups.items():
        yield from [typer.style(organisation, dim=True)] * grouped
        yield from lines
    yield ""
    yield f"{len(found)} architecture{'s' * (len(found) != 1)}."
    if any(entry.stand_in for entry in found):
        yield f"{GUESS} is not exact: not everything is public, and --sources says what stands in."
    if len(columns) < len(SHORT):
        yield "A wider terminal, a pipe or --exact shows more columns."
    yield "Next: anyformer show NAME, anyformer cost NAME. Filters: anyformer list --help."


def _table(columns: Sequence[Column], found: Sequence[Listed]) -> list[str]:
    """A head, and a row for each entry."""
    rows = [[cell(entry) for _, cell in columns] for entry in found]
    return aligned([[head for head, _ in columns], *rows], [head in NUMBERS for head, _ in columns])


def _source(entry: Listed) -> str:
    """What it is, and where its figures stand."""
    stand_in = f"\n  stand-in: {entry.stand_in}" if entry.stand_in else ""
    return f"{entry.name} ({entry.year}, {entry.organisation}): {entry.summary}\n  {entry.source}{stand_in}"
