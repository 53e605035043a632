"""Pages on a terminal, folded between words to its width; in a file or a pipe they are as wide as is easy to read."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

import typer

from anyformer.cli.aligned import WIDEST
from anyformer.cli.pages import Item, lines


def columns() -> int:
    """Columns of the terminal, or the variable COLUMNS."""
    return shutil.get_terminal_size((WIDEST, 24)).columns


def show(items: Iterable[Item]) -> None:
    """Print the items of a page as soon as they are there."""
    width = columns()
    for line in lines(items, width):
        typer.echo(typer.style(line.text, bold=True) if line.strong else line.text)
