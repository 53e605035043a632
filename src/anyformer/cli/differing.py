"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Changes, Tiny, What, found

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.compare import Change


def run(
    left: What,
    right: What,
    changes: Changes = None,
    tiny: Tiny = False,
    length: Annotated[int, typer.Option(help="Tokens per text that FLOPs and decode state are for.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Texts that FLOPs and decode state are for.", min=1)] = 1,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say what differs between two architectures, and what it does to parameters, FLOPs and decode state."""
    from rich.console import Console

    from anyformer.compare import difference

    differs = difference(found(left, tiny=tiny), found(right, changes, tiny=tiny), batch=batch, length=length)
    if json:
        print(jsons.dumps(asdict(differs), indent=2))
        return
    console = Console()
    if not differs.details:
        console.print("the two architectures are equal")
        return
    sections = {
        "in short": differs.summary,
        "in detail": differs.details,
        f"costs, {batch} x {length:,} tokens, 16-bit state": differs.costs,
    }
    for title, section in sections.items():
        if section:
            console.print(_table(title, left, right, section))
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
