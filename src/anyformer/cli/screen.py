"""Lines on a terminal, folded between words to its width; a file or a pipe has no width."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from anyformer.cli.aligned import folded

if TYPE_CHECKING:
    from anyformer.costs.rows import Line

UNLIMITED = 10_000
"""Columns of a file or a pipe without the variable COLUMNS."""


def columns() -> int:
    """Columns of the terminal, or the variable COLUMNS."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def show(lines: Iterable[Line]) -> None:
    """Print lines; a sentence that is too long is folded under its own indentation."""
    width = columns()
    for line in lines:
        text = line.text if len(line.text) <= width else folded(line.text, width)
        typer.echo(typer.style(text, bold=True) if line.strong else text)
