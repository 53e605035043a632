"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import Changes, Tiny, What, found

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.costs.inference import DecodeState
    from anyformer.planning.planner import Candidate, Planned


_WIDE = 132
"""Columns of the table; a narrower terminal wraps its lines."""


def run(
    what: What,
    changes: Changes = None,
    tiny: Tiny = False,
    gpus: Annotated[int, typer.Option(help="Accelerators to lay the training out on.", min=1)] = 8,
    hardware: Annotated[
        str, typer.Option(help="Which: a100, a100-40, h100, h200, h800, b200, mi300x, l40s, rtx4090, tpu-v5p and others.")
    ] = "h100",
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens of one step; k and M are 1,024 and 1,048,576.", parser=tokens, metavar="TOKENS")
    ] = 2**22,
    length: Annotated[int, typer.Option(help="Tokens per sequence; 8k is 8,192.", parser=tokens, metavar="TOKENS")] = 8192,
    decode_batch: Annotated[
        int | None, typer.Option(help="Also what decoding so many sequences of that length takes: weights and cache.", min=1)
    ] = None,
    precision: Annotated[str, typer.Option(help="bf16 with sums in fp32, or fp32.")] = "bf16",
    show: Annotated[int, typer.Option(help="Layouts to show.", min=1)] = 5,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Find the fastest layouts that fit: data, tensor, pipeline and expert parallelism, sharding, checkpointing."""
    from rich.console import Console

    from anyformer.costs.inference import FORMATS, decode_state, weight_bytes
    from anyformer.describe import UserError
    from anyformer.plan import Plan
    from anyformer.planning.planner import plan_training

    if precision not in ("bf16", "fp32"):
        raise UserError(f"precision is bf16 or fp32, got {precision!r}")
    architecture, plan = found(what, changes, tiny=tiny), Plan(precision="bf16" if precision == "bf16" else "fp32")
    state = decode_state(architecture, batch=decode_batch, context=length, plan=plan) if decode_batch else None
    if state is not None and not state.memories:
        raise UserError(f"{what} keeps nothing from token to token, so --decode-batch has no meaning for it: leave it out")
    planned = plan_training(
        architecture, ranks=gpus, batch_tokens=batch_tokens, length=length, hardware=hardware, plan=plan, show=show
    )
    weights = weight_bytes(architecture, FORMATS[precision])
    if json:
        print(jsons.dumps({**_plain(planned), **(_plain_state(weights, state) if state else {})}, indent=2))
        return
    console = Console()
    console.width = max(console.width, _WIDE)
    for line in [answer(what, planned), *(decoding(weights, precision, state, planned) if state else [])]:
        console.print(line, highlight=False, soft_wrap=True)
    if planned.fastest:
        console.print(_table(planned.fastest))
        console.print(_assumed(planned), highlight=False, soft_wrap=True)
    for each in planned.too_large:
        console.print(f"does not fit: {each.layout}: {each.why_not}", highlight=False, soft_wrap=True)
    for reason in planned.impossible:
        console.print(f"not possible: {reason}", highlight=False, soft_wrap=True)


def answer(what: str, planned: Planned) -> str:
    """Whether it trains, how, and how fast, in a sentence."""
    on = planned.machine.hardware
    asked = f"{what} on {planned.ranks:,} {on.name}, {planned.sequences:,} x {planned.length:,} tokens per step"
    tried = f"({planned.tried:,} layouts tried)"
    if not planned.fastest:
        return f"No: {asked}: nothing fits {tried}; more accelerators, a shorter length or a smaller batch may."
    best = planned.fastest[0]
    days = 1e12 / best.tokens_per_second / 86_400
    return (
        f"Yes: {asked}: {best.layout}, {best.layout.checkpointing} recomputed, {best.time.total:.3g} s per step, "
        f"{best.tokens_per_second:,.0f} tokens/s, {days:,.3g} days per trillion tokens {tried}."
    )


def decoding(weights: int, precision: str, state: DecodeState, planned: Planned) -> list[str]:
    """What decoding takes, in two lines: weights, and the decode state of a token, a sequence and the batch."""
    on, total = planned.machine.hardware, weights + state.total
    least = -(-total // on.room)
    return [
        f"Decoding: {weights / 1e9:,.1f} GB of weights in {precision}; with the cache {total / 1e9:,.1f} GB, "
        f"which {least:,} {on.name} hold{'s' if least == 1 else ''}.",
        f"Cache: {state.per_token:,} bytes per token, {state.per_sequence / 1e9:,.2f} GB per sequence of {state.context:,}, "
        f"{state.total / 1e9:,.1f} GB at batch {state.batch:,}.",
    ]


def _assumed(planned: Planned) -> str:
    reached, peak = planned.machine.hardware.efficiency, planned.machine.peak
    return (
        f"Assumed: {reached.matrix:.0%} of {peak / 1e12:.0f} TFLOP/s in matrix products, {reached.attention:.0%} in attention, "
        f"{reached.network:.0%} of the links' bandwidth, {reached.overlap:.0%} of compute hides transfers of weights and "
        "gradients; activations as eager PyTorch keeps them, attention by a kernel that writes no scores."
    )


def _plain_state(weights: int, state: DecodeState) -> dict[str, Any]:
    figures = {name: getattr(state, name) for name in ("batch", "context", "per_token", "per_sequence", "total")}
    return {"decoding": {"weights": weights, "cache": figures}}


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
        "hardware": _hardware(planned),
        "gpus": planned.ranks,
        "sequences": planned.sequences,
        "length": planned.length,
        "tried": planned.tried,
        "fastest": [_candidate(each) for each in planned.fastest],
        "too_large": [_candidate(each) for each in planned.too_large],
        "impossible": planned.impossible,
    }


def _hardware(planned: Planned) -> dict[str, Any]:
    on = planned.machine.hardware
    figures = {
        name: getattr(on, name) for name in ("name", "memory", "room", "bandwidth", "link", "network", "domain", "source")
    }
    return {**figures, "peak": planned.machine.peak, "efficiency": asdict(on.efficiency)}


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
