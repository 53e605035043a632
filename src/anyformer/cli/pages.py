"""What a command answers, before the width of a terminal is known: it can be kept, and shown at any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from anyformer.cli.aligned import Column, blocks, fitting, folded, table, wrapped
from anyformer.costs.figures import Figure
from anyformer.costs.rows import FigureRow, PageLine, Section
from anyformer.costs.text import lines as lines_of


@dataclass(frozen=True)
class Paragraph:
    """Whole words in lines: the first after `start`, the others after `hanging`, by default `start` and two spaces."""

    text: str
    start: str = ""
    hanging: str | None = None


@dataclass(frozen=True)
class Figures:
    """Sections of figures whose columns line up."""

    sections: tuple[Section, ...]


@dataclass(frozen=True)
class PageTable:
    """A line per row of `rows` below `heads`, in as many columns as fit; `numbers`: heads of those aligned to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class BlockTable:
    """The same with all columns at any width: those without room stand in blocks below, behind the first column again."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class Verbatim:
    """Text for a program, which is never folded."""

    text: str


Item: TypeAlias = PageLine | Paragraph | Figures | PageTable | BlockTable | Verbatim


def lines(items: Iterable[Item], width: int) -> Iterator[PageLine]:
    """The lines of a page on a terminal; a sentence that is too long is folded under its own indentation."""
    for item in items:
        match item:
            case PageLine(text, strong):
                yield from (
                    PageLine(part, strong) for part in (folded(text, width).split("\n") if len(text) > width else [text])
                )
            case Paragraph(text, start, hanging):
                yield from map(PageLine, wrapped(text, width, start, hanging))
            case Figures(sections):
                yield from lines(lines_of(sections, width), width)
            case PageTable(heads, rows, numbers):
                yield from map(PageLine, table(fitting(_columns(heads), rows, width), rows, numbers))
            case BlockTable(heads, rows, numbers):
                for number, columns in enumerate(blocks(_columns(heads), rows, width)):
                    yield from map(PageLine, [*[""] * bool(number), *table(columns, rows, numbers)])
            case Verbatim(text):
                yield from map(PageLine, text.removesuffix("\n").split("\n"))


def _columns(heads: Iterable[str]) -> list[Column[tuple[str, ...]]]:
    return [(head, itemgetter(at)) for at, head in enumerate(heads)]


def plain(item: Item) -> list[Any]:
    """An item as plain data: its class, then its fields."""
    return [type(item).__name__, *astuple(item)]


def parsed(kind: str, *fields: Any) -> Item:
    """The item of such data."""
    match kind, fields:
        case "PageLine", _:
            return PageLine(*fields)
        case "Paragraph", _:
            return Paragraph(*fields)
        case "Figures", (sections,):
            return Figures(tuple(_section(*each) for each in sections))
        case "PageTable", (heads, rows, numbers):
            return PageTable(tuple(heads), tuple(map(tuple, rows)), tuple(numbers))
        case "BlockTable", (heads, rows, numbers):
            return BlockTable(tuple(heads), tuple(map(tuple, rows)), tuple(numbers))
        case "Verbatim", _:
            return Verbatim(*fields)
    raise AssertionError(f"no item of a page: {kind}")


def _section(title: str, columns: list[str], rows: list[Any], detail: bool) -> Section:
    return Section(title, tuple(columns), tuple(_row(*row) for row in rows), detail)


def _row(name: str, figures: list[Any], detail: bool, strong: bool) -> FigureRow:
    return FigureRow(name, tuple(Figure(*figure) for figure in figures), detail, strong)
