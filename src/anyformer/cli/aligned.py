"""Rows of text in aligned columns, as many columns as fit."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Container, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")
Column = tuple[str, Callable[[T], str]]
"""A head, and the cell of an item below it."""
GAP = "  "
WIDEST = 100
"""Columns beyond which a line of words is hard to read."""


def aligned(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[str]:
    """Lines of rows of equally many cells; `numbers`: which columns are aligned to the right."""
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    sides = [">" if number else "<" for number in numbers]
    return [
        GAP.join(f"{cell:{side}{size}}" for cell, side, size in zip(row, sides, wide, strict=True)).rstrip() for row in rows
    ]


def table(columns: Sequence[Column[T]], items: Sequence[T], numbers: Container[str]) -> list[str]:
    """A line of heads, and one per item; `numbers`: heads of the columns aligned to the right."""
    heads = [head for head, _ in columns]
    return aligned([heads, *([cell(item) for _, cell in columns] for item in items)], [head in numbers for head in heads])


def fitting(columns: Sequence[Column[T]], items: Sequence[T], width: int) -> list[Column[T]]:
    """The columns that stand side by side in `width`, taken in their order.

    An empty one, or one that does not fit, is left out; the first is always there.
    """
    kept: list[Column[T]] = []
    taken = 0
    for head, cell in columns:
        cells = list(map(cell, items))
        after = taken + max(map(len, (head, *cells))) + len(GAP) * bool(kept)
        if not kept or (any(cells) and after <= width):
            kept.append((head, cell))
            taken = after
    return kept


def blocks(columns: Sequence[Column[T]], items: Sequence[T], width: int) -> list[list[Column[T]]]:
    """All columns in as few equal blocks as stand in `width` below one another, the first column in every block.

    Where it does not stand beside any other one, a block has two columns and is wider.
    """
    first, *others = columns
    made = [list(columns)]
    for count in range(2, len(others) + 1):
        if all(_wide(block, items) <= width for block in made):
            break
        made = [[first, *others[start:end]] for start, end in pairwise(len(others) * at // count for at in range(count + 1))]
    return made


def _wide(columns: Sequence[Column[T]], items: Sequence[T]) -> int:
    """Letters of a line of these columns."""
    return sum(max(map(len, (head, *map(cell, items)))) for head, cell in columns) + len(GAP) * (len(columns) - 1)


def wrapped(text: str, width: int, start: str = "", hanging: str | None = None) -> list[str]:
    """Lines of whole words: the first after `start`, the others after `hanging`, by default `start` and two spaces."""
    return textwrap.wrap(
        text,
        min(width, WIDEST),
        initial_indent=start,
        subsequent_indent=f"{start}  " if hanging is None else hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )


def folded(text: str, width: int) -> str:
    """Text with every line folded under its own indentation: a terminal alone would break words."""
    lines: list[str] = []
    for line in text.splitlines():
        words = line.lstrip()
        lines += wrapped(words, width, line[: len(line) - len(words)]) or [""]
    return "\n".join(lines)
