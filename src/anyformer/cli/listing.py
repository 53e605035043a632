"""`anyformer list`."""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    contains: Annotated[str, typer.Argument(help="Only names, summaries or sources that contain this.", metavar="[TEXT]")] = "",
    since: Annotated[int, typer.Option(help="Only from this year on.")] = 0,
    names: Annotated[bool, typer.Option("--names", help="Names alone, one a line, for scripts.")] = False,
) -> None:
    """List the architectures of the catalogue, with their exact parameter counts."""
    from rich.console import Console
    from rich.table import Table

    from anyformer.catalogue import listing
    from anyformer.describe import UserError

    wanted = contains.lower()
    found = [e for e in listing() if e.year >= since and wanted in f"{e.name} {e.summary} {e.source}".lower()]
    if not found:
        raise UserError(f"no architecture matches {contains!r} since {since}; `anyformer list` shows all {len(listing())}")
    if names:
        print("\n".join(entry.name for entry in found))
        return
    table = Table("name", "year", "shape", "parameters", "what", box=None, header_style="bold")
    table.columns[3].justify = "right"
    for entry in found:
        table.add_row(entry.name, str(entry.year), entry.shape, f"{entry.parameters:,}", entry.summary)
    Console().print(table)
