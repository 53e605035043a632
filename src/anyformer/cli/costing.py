"""`anyformer cost`."""

from __future__ import annotations

import json as jsons
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli import measuring

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.costs.compared import Priced

_WHAT = "A catalogue name, a .toml or .json file, or a directory: a run's or one of Hugging Face's layout."


def run(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help=f"{_WHAT} Several stand side by side.", metavar="A [B C ...]")],
    mode: Annotated[
        Literal["train", "prefill", "decode"],
        typer.Option(help="A training step, reading a prompt, or one more token after --length cached ones."),
    ] = "train",
    batch: Annotated[int, typer.Option(help="Sequences per step.", min=1)] = 1,
    length: Annotated[int, typer.Option(help="Tokens per sequence; of decoding, those in the cache.", min=1)] = 4096,
    source_length: Annotated[
        int | None, typer.Option(help="Positions of the source of two inputs; as long as the target by default.", min=1)
    ] = None,
    hardware: Annotated[
        str, typer.Option(help="What it runs on (h100, a100, h200, b200, mi300x, ...); `here` measures this machine first.")
    ] = "h100",
    precision: Annotated[Literal["auto", "fp32", "bf16"], typer.Option(help="Numbers that are multiplied and moved.")] = "auto",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw intensity and speed over batch, length and size.", metavar="FILE.png")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    measured: Annotated[
        bool, typer.Option("--measure", help="Build what fits, run it on --device, and show predicted beside measured.")
    ] = False,
    device: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="Where --measure runs; the first accelerator by default.")
    ] = None,
) -> None:
    """Say what architectures cost before they are built: parameters, FLOPs, memory, and time on named hardware."""
    from anyformer.cli.show import architecture_of, find
    from anyformer.costs.compared import Call, priced
    from anyformer.costs.hardware import hardware_of
    from anyformer.plan import Plan

    if measured:
        for name in names:
            measuring.run(context, name, batch, length, source_length, Plan(precision=precision), device, json=json)
        return
    call = Call(mode, batch, length, source_length, Plan(precision=precision), hardware_of(hardware))
    found = [priced(name, architecture_of(find(name)), call) for name in names]
    if plot is not None:
        from anyformer.costs.plotting import draw

        draw([(name, architecture_of(find(name))) for name in names], call, plot)
    if json:
        print(jsons.dumps([item.data() for item in found], indent=2))
        return
    _print(found, plot)


def _print(found: Sequence[Priced], plot: Path | None) -> None:
    from rich.console import Console

    # A line too long for the terminal wraps there; a number cut short would be wrong.
    console = Console(width=1000)
    console.print(found[0].call.title(), highlight=False, soft_wrap=True)
    console.print()
    console.print(_side_by_side(found))
    if len(found) == 1:
        console.print()
        console.print(_operations(found[0]))
    for item in found:
        for warning in item.warnings():
            console.print(f"[yellow]{item.name}: {warning}[/yellow]", highlight=False, soft_wrap=True)
    if plot is not None:
        console.print(str(plot), highlight=False, soft_wrap=True)


def _side_by_side(found: Sequence[Priced]) -> Table:
    table = _table("", *(item.name for item in found))
    columns = [dict(item.rows()) for item in found]
    # The longest column has every line, in order.
    for what in max(columns, key=len):
        table.add_row(what, *(column.get(what, "") for column in columns))
    return table


def _operations(item: Priced) -> Table:
    table = _table("where the time goes", "FLOPs", "bytes", "FLOPs/byte", "time", "share", "waits for")
    for row in item.operation_rows():
        table.add_row(*row)
    return table


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table: Any = Table(first, *others, box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return table  # type: ignore[no-any-return]
