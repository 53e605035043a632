"""Lines on a terminal: none longer than it is wide, words whole; a file or a pipe has no width."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from anyformer.cli.aligned import folded

if TYPE_CHECKING:
    from anyformer.costs.rows import Line

UNLIMITED = 10_000
"""Columns of what is no terminal and has no COLUMNS."""


def columns() -> int:
    """Of the terminal, or as COLUMNS says."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def show(lines: Iterable[Line]) -> None:
    """Print lines, a sentence that is too long folded under its own indentation."""
    width = columns()
    for line in lines:
        said = line.text if len(line.text) <= width else folded(line.text, width)
        typer.echo(typer.style(said, bold=True) if line.strong else said)
