"""Results as tables of `rich`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table_of(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> Table:
    """A table whose first `words` columns are words, and whose others are numbers, aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        made.add_column(Text(head), justify="left" if number < words else "right", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made
