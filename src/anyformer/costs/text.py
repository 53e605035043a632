"""Sections of aligned figures as text, for one architecture or for several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyformer.costs.figures import NOTHING, Figure
from anyformer.costs.narrow_pages import narrow
from anyformer.costs.rows import FigureRow, PageLine, Section

STRONG_RATIO = 2.0
"""Ratio of the largest figure to the smallest from which a row stands out."""
NARROWEST = 9
"""Width of the narrowest column, so that sections line up."""


def text(sections: Sequence[Section]) -> str:
    """The lines of sections as one text."""
    return "\n".join(line.text for line in lines(sections))


def lines(sections: Sequence[Section], width: int | None = None) -> Iterator[PageLine]:
    """Titles with the names of their columns, rows indented below; names are as wide in all sections.

    A section wider than `width` is set by itself: its columns one group below the other, long names above figures.
    """
    names = [f"  {row.name}" for section in sections for row in section.rows] + [section.title for section in sections]
    wide = max(map(len, names), default=0)
    for i, section in enumerate(sections):
        if i:
            yield PageLine("")
        aligned = list(_section(section, wide))
        fits = width is None or all(len(line.text) <= width for line in aligned)
        yield from aligned if fits or width is None else narrow(section, width)


def _section(section: Section, wide: int) -> Iterator[PageLine]:
    columns = section.widths(NARROWEST)
    yield PageLine(_aligned(section.title, section.columns, wide, columns), strong=True)
    for row in section.rows:
        yield PageLine(_aligned(f"  {row.name}", list(map(str, row.figures)), wide, columns), row.strong)


def _aligned(name: str, cells: Sequence[str], wide: int, columns: Sequence[int]) -> str:
    return (f"{name:<{wide}}" + "".join(f"  {cell:>{size}}" for cell, size in zip(cells, columns, strict=False))).rstrip()


def side_by_side(names: Sequence[str], pages: Sequence[Sequence[Section]]) -> tuple[Section, ...]:
    """The rows of pages with a column per page, the ratio of the largest figure to the least, and whose is the least."""
    titles = dict.fromkeys(section.title for sections in pages for section in sections if not section.detail)
    tables = [{section.title: _flat(section) for section in sections} for sections in pages]
    return tuple(_joined(title, names, [table.get(title, {}) for table in tables]) for title in titles)


def _flat(section: Section) -> dict[str, Figure]:
    """A row per figure: `forward, dense`."""
    return {
        f"{row.name}, {column}" if column else row.name: figure
        for row in section.rows
        if not row.detail
        for column, figure in zip(section.columns, row.figures, strict=False)
        if str(figure)
    }


def _joined(title: str, names: Sequence[str], columns: Sequence[dict[str, Figure]]) -> Section:
    """A section with a column of figures per name, and their ratio."""
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        figures = [column.get(name, NOTHING) for column in columns]
        ratio = _ratio(figures)
        least = min(zip(figures, names, strict=True), key=lambda pair: pair[0].number or 0)[1]
        words = f"{least} {ratio:,.2f} x less" if len(names) == 2 else f"{least} least, {ratio:,.2f} x"
        rows.append(FigureRow(name, (*figures, Figure("" if ratio < 1.005 else words)), strong=ratio >= STRONG_RATIO))
    return Section(title, (*names, "most / least"), tuple(rows))


def _ratio(figures: Sequence[Figure]) -> float:
    """The largest figure over the least, 1 where one is missing or zero."""
    numbers = [figure.number for figure in figures if figure.number]
    return max(numbers) / min(numbers) if len(numbers) == len(figures) else 1.0
