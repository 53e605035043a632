"""Tables and paragraphs of the pages that scripts beside this file write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [names, ["---"] * len(names), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def prose(text: str) -> str:
    """A paragraph, folded as the pages are."""
    return "\n".join(textwrap.wrap(text, 128, break_on_hyphens=False)) + "\n"
