"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import Changes, Tiny, What, found
from anyformer.cli.titles import titled

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.compare import Change
    from anyformer.model import Architecture


def run(
    left: What,
    right: What,
    changes: Changes = None,
    tiny: Tiny = False,
    length: Annotated[int, typer.Option(help="Tokens per text that FLOPs and decode state are for.", min=1)] = 4096,
    batch: Annotated[int, typer.Option(help="Texts that FLOPs and decode state are for.", min=1)] = 1,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    diagram: Annotated[
        Path | None,
        typer.Option(
            "--diagram",
            help="Draw both side by side instead, what differs in colour.",
            metavar="FILE.svg|png|pdf",
        ),
    ] = None,
) -> None:
    """Say what differs between two architectures, and what it does to parameters, FLOPs and decode state."""
    from rich.console import Console

    from anyformer.compare import difference

    here, there = found(left, tiny=tiny), found(right, changes, tiny=tiny)
    if diagram is not None:
        draw_pair((titled(left, tiny=tiny), here), (titled(right, changes, tiny=tiny), there), diagram)
        return
    differs = difference(here, there, batch=batch, length=length)
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


def draw_pair(left: tuple[str, Architecture], right: tuple[str, Architecture], path: Path) -> None:
    """Write the picture of two architectures; one that is changed only by `--set` is named apart."""
    from anyformer.pictures import draw_diagram

    name, other = left[0], right[0]
    draw_diagram({name: left[1], f"{other} (right)" if other == name else other: right[1]}, path)
    print(path)


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
