"""Figures in rows and sections, and the lines that they become."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.costs.figures import Figure


@dataclass(frozen=True)
class FigureRow:
    """Figures of one thing, one per column of its section, or fewer.

    `detail`: left out where several architectures stand side by side; `strong`: it stands out.
    """

    name: str
    figures: tuple[Figure, ...]
    detail: bool = False
    strong: bool = False


@dataclass(frozen=True)
class Section:
    """Rows under a title, with a name per column, which may be empty. `detail`: as of a row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    detail: bool = False

    def widths(self, least: int = 0) -> list[int]:
        """Characters that a column takes, at `least` so many."""
        cells = [[str(figure) for figure in row.figures] for row in self.rows]
        return [max([least, len(head), *(len(row[i]) for row in cells if i < len(row))]) for i, head in enumerate(self.columns)]


@dataclass(frozen=True)
class PageLine:
    """One line; `strong`: a title, or a row that stands out."""

    text: str
    strong: bool = False
