"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import WHAT

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.compare import Change


def run(
    left: Annotated[str, typer.Argument(help=WHAT, metavar="A")],
    right: Annotated[str, typer.Argument(help="What to hold against it.", metavar="B")],
    length: Annotated[int, typer.Option(help="Tokens per text that FLOPs and decode state are for.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Texts that FLOPs and decode state are for.", min=1)] = 1,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say what differs between two architectures, and what it does to parameters, FLOPs and decode state."""
    from rich.console import Console

    from anyformer.cli.show import architecture_of, find
    from anyformer.compare import difference

    found = difference(architecture_of(find(left)), architecture_of(find(right)), batch=batch, length=length)
    if json:
        print(jsons.dumps(asdict(found), indent=2))
        return
    console = Console()
    if not found.details:
        console.print("the two architectures are equal")
        return
    sections = {
        "in short": found.summary,
        "in detail": found.details,
        f"costs, {batch} x {length:,} tokens, 16-bit state": found.costs,
    }
    for title, changes in sections.items():
        if changes:
            console.print(_table(title, left, right, changes))
            console.print()


def _table(title: str, left: str, right: str, changes: Iterable[Change]) -> Table:
    from rich.table import Table

    changes = list(changes)
    counted = any(change.ratio is not None for change in changes)
    table = Table(title, left, right, *["times"] * counted, box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right" if counted else "left"
        column.overflow = "fold"
    for change in changes:
        ratio = "" if change.ratio is None else f"{change.ratio:.3g}"
        table.add_row(change.what, change.left, change.right, *[ratio] * counted)
    return table
