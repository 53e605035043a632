"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.amounts import tokens

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.planning.planner import Candidate, Planned


_WIDE = 132
"""Columns of the table; a narrower terminal wraps its lines."""


def run(
    what: Annotated[
        str,
        typer.Argument(
            help="A catalogue name, a .toml or .json file, or a directory: a run's or one of Hugging Face's layout.",
            metavar="NAME|PATH",
        ),
    ],
    gpus: Annotated[int, typer.Option(help="Accelerators to lay the training out on.", min=1)] = 8,
    hardware: Annotated[str, typer.Option(help="Which: h100, h800, a100, a100-40gb.")] = "h100",
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens of one step; k and M are 1,024 and 1,048,576.", parser=tokens, metavar="TOKENS")
    ] = 2**22,
    length: Annotated[int, typer.Option(help="Tokens per sequence.", parser=tokens, metavar="TOKENS")] = 8192,
    precision: Annotated[str, typer.Option(help="bf16 with sums in fp32, or fp32.")] = "bf16",
    show: Annotated[int, typer.Option(help="Layouts to show.", min=1)] = 5,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Find the fastest layouts that fit: data, tensor, pipeline and expert parallelism, sharding, checkpointing."""
    from rich.console import Console

    from anyformer.cli.show import architecture_of, find
    from anyformer.describe import UserError
    from anyformer.plan import Plan
    from anyformer.planning.planner import plan_training

    if precision not in ("bf16", "fp32"):
        raise UserError(f"precision is bf16 or fp32, got {precision!r}")
    planned = plan_training(
        architecture_of(find(what)),
        ranks=gpus,
        batch_tokens=batch_tokens,
        length=length,
        hardware=hardware,
        plan=Plan(precision="bf16" if precision == "bf16" else "fp32"),
        show=show,
    )
    if json:
        print(jsons.dumps(_plain(planned), indent=2))
        return
    console = Console()
    console.width = max(console.width, _WIDE)
    machine = planned.machine
    console.print(
        f"{what} on {gpus:,} {machine.name}, {planned.sequences:,} x {length:,} tokens per step; "
        f"{planned.tried:,} layouts tried",
        highlight=False,
        soft_wrap=True,
    )
    if planned.fastest:
        console.print(_table(planned.fastest))
        console.print(
            f"Assumed: {machine.efficiency.compute:.0%} of {machine.peak / 1e12:.0f} TFLOP/s in matrix products, "
            f"{machine.efficiency.link:.0%} of the links' bandwidth, {machine.efficiency.overlap:.0%} of compute hides "
            "transfers of weights and gradients; activations are an estimate.",
            highlight=False,
            soft_wrap=True,
        )
    else:
        console.print(f"Nothing fits on {gpus:,} {machine.name}: more of them, a shorter length or a smaller batch may.")
    for each in planned.too_large:
        console.print(f"does not fit: {each.layout}: {each.why_not}", highlight=False, soft_wrap=True)
    for reason in planned.impossible:
        console.print(f"not possible: {reason}", highlight=False, soft_wrap=True)


def _table(candidates: Iterable[Candidate]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("layout", "micro-batch", "sharded", "recomputed"):
        table.add_column(name, no_wrap=True)
    for name in ("GB per rank", "step s", "tokens/s", "MFU", "exposed", "bubble"):
        table.add_column(name, no_wrap=True, justify="right")
    for each in candidates:
        layout, time = each.layout, each.time
        table.add_row(
            str(layout),
            f"{layout.micro_batch} x {layout.micro_batches}",
            layout.sharded if layout.fsdp > 1 or layout.expert_fsdp > 1 else "-",
            layout.checkpointing,
            f"{each.memory.total / 1e9:.1f}",
            f"{time.total:.3g}",
            f"{each.tokens_per_second:,.0f}",
            f"{each.mfu:.1%}",
            f"{(time.tensor + time.experts + time.data) / time.total:.0%}",
            f"{time.bubble / time.total:.0%}",
        )
    return table


def _plain(planned: Planned) -> dict[str, Any]:
    """What was found, in plain values: bytes and seconds."""
    return {
        "hardware": asdict(planned.machine),
        "gpus": planned.ranks,
        "sequences": planned.sequences,
        "length": planned.length,
        "tried": planned.tried,
        "fastest": [_candidate(each) for each in planned.fastest],
        "too_large": [_candidate(each) for each in planned.too_large],
        "impossible": planned.impossible,
    }


def _candidate(each: Candidate) -> dict[str, Any]:
    return {
        "layout": asdict(each.layout),
        "memory": {**asdict(each.memory), "total": each.memory.total},
        "sent": {**asdict(each.sent), "total": each.sent.total},
        "seconds": {**asdict(each.time), "total": each.time.total},
        "tokens_per_second": each.tokens_per_second,
        "mfu": each.mfu,
        "why_not": each.why_not,
    }
