"""A section of figures in a terminal too narrow for all its columns side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from anyformer.costs.rows import PageLine, Section

INDENT = 4
"""Spaces before figures that stand below their name."""
MOST_GROUPS = 2
"""Groups of columns above which long names stand above their figures."""


def narrow(section: Section, width: int) -> Iterator[PageLine]:
    """Columns that are not empty, in groups as wide as `width`, one below the other; long names stand above their figures."""
    names = max((len(row.name) + 2 for row in section.rows), default=0)
    sizes = section.widths()
    filled = [i for i in range(len(sizes)) if any(str(figure) for row in section.rows for figure in row.figures[i : i + 1])]
    groups = _groups(filled, sizes, width - names)
    crowded = len(groups) > MOST_GROUPS or names + 2 + max((sizes[i] for i in filled), default=0) > width
    above = names > width // 2 and crowded
    wide = INDENT if above else names
    for at, group in enumerate(_groups(filled, sizes, width - wide)):
        if at:
            yield PageLine("")
        yield from _group(section, group, [sizes[i] for i in group], wide, width, above=above, first=at == 0)


def _groups(columns: Sequence[int], sizes: Sequence[int], width: int) -> list[list[int]]:
    """Columns in groups that fit side by side into `width`, two spaces before each; a column too wide stands alone."""
    groups: list[list[int]] = [[]]
    for i in columns:
        if groups[-1] and sum(sizes[j] + 2 for j in [*groups[-1], i]) > width:
            groups.append([])
        groups[-1].append(i)
    return groups


def _group(
    section: Section, group: Sequence[int], sizes: Sequence[int], wide: int, width: int, *, above: bool, first: bool
) -> Iterator[PageLine]:
    """Title and heads, then the rows with figures in these columns."""
    heads = [section.columns[i] for i in group]
    yield from _row(section.title, heads, sizes, wide, width, above=len(section.title) > wide, strong=True)
    for row in section.rows:
        cells = [str(row.figures[i]) if i < len(row.figures) else "" for i in group]
        if first or any(cells):
            yield from _row(f"  {row.name}", cells, sizes, wide, width, above=above, strong=row.strong)


def _row(
    name: str, cells: Sequence[str], sizes: Sequence[int], wide: int, width: int, *, above: bool, strong: bool
) -> Iterator[PageLine]:
    figures = "".join(f"  {cell:>{size}}" for cell, size in zip(cells, sizes, strict=True)).rstrip()
    if not above:
        yield PageLine(f"{name:<{wide}}{figures}".rstrip(), strong)
        return
    indent = " " * (len(name) - len(name.lstrip()))
    for line in textwrap.wrap(name.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  "):
        yield PageLine(line, strong)
    if figures:
        yield PageLine(" " * wide + figures, strong)
