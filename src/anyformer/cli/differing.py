"""`anyformer diff`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.arguments import WHAT, Batch, Changes, Json, Length, Tiny, found

EXAMPLES = """
anyformer diff llama-3-8b qwen3-8b
anyformer diff gpt2 gpt2 --set decoder.layer.attention.kv_heads=1
anyformer diff mixtral-8x7b mixtral-8x7b --set decoder.layer.experts.chosen=1 --length 32k
"""

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.compare import Change


def run(
    left: Annotated[str, typer.Argument(help=f"What to start from. {WHAT}", metavar="FROM")],
    right: Annotated[str, typer.Argument(help="What to compare it with, named likewise. --set changes it.", metavar="TO")],
    changes: Changes = None,
    tiny: Tiny = False,
    length: Length = None,
    batch: Batch = 1,
    json: Json = False,
) -> None:
    """Say what differs between two architectures, and what that does to parameters, FLOPs and decode state."""
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
