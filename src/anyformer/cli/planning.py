"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli.aligned import aligned, fitting, wrapped
from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import MACHINE, OUTPUT, WORKLOAD, Changes, Json, Tiny, What, found, guesses

if TYPE_CHECKING:
    from anyformer.costs.inference import DecodeState
    from anyformer.planning.planner import Candidate, Planned

EXAMPLES = """
anyformer plan llama-2-13b --gpus 8 --hardware a100 --length 8k
anyformer plan llama-3.1-405b --gpus 1024 --batch-tokens 16M
anyformer plan llama-2-13b --gpus 8 --decode-batch 64
"""
LENGTH = 8192


def run(
    what: What,
    changes: Changes = None,
    tiny: Tiny = False,
    batch_tokens: Annotated[
        int,
        typer.Option(
            help="Tokens of one training step, as in 4M. k and M are 1,024 and 1,048,576.",
            parser=tokens,
            metavar="TOKENS",
            show_default="4M",
            rich_help_panel=WORKLOAD,
        ),
    ] = 2**22,
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens of each sequence, as in 8k for 8,192. By default 8k, or fewer where a position table ends before.",
            parser=tokens,
            metavar="TOKENS",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    decode_batch: Annotated[
        int | None,
        typer.Option(
            help="Also say what decoding this many sequences of that length takes: weights and cache.",
            min=1,
            metavar="COUNT",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    gpus: Annotated[
        int,
        typer.Option(help="Lay the training out on this many accelerators.", min=1, metavar="COUNT", rich_help_panel=MACHINE),
    ] = 8,
    hardware: Annotated[
        str,
        typer.Option(
            help="The accelerator: a100, a100-40, h100, h200, h800, b200, mi300x, l40s, rtx4090, tpu-v5p and others.",
            metavar="NAME",
            rich_help_panel=MACHINE,
        ),
    ] = "h100",
    precision: Annotated[
        Literal["bf16", "fp32"],
        typer.Option(
            help="The number format of matrix products. With bf16, weights and sums are still kept in fp32.",
            metavar="bf16|fp32",
            rich_help_panel=MACHINE,
        ),
    ] = "bf16",
    show: Annotated[
        int, typer.Option(help="Show this many of the fastest layouts.", min=1, metavar="COUNT", rich_help_panel=OUTPUT)
    ] = 5,
    json: Json = False,
) -> None:
    """Say whether a training fits on many accelerators, how fast it is, and how it is best laid out.

    Every layout of data, tensor, pipeline and expert parallelism, sharding and recomputation is tried. The command exits
    with 1 if none fits.
    """
    architecture = found(what, changes, tiny=tiny)

    from anyformer.costs.inference import FORMATS, decode_state, weight_bytes
    from anyformer.costs.page import longest
    from anyformer.describe import UserError
    from anyformer.plan import Plan
    from anyformer.planning.planner import plan_training

    plan, room = Plan(precision=precision), longest(architecture)
    length = length or min(LENGTH, room or LENGTH)
    state = decode_state(architecture, batch=decode_batch, context=length, plan=plan) if decode_batch else None
    if state is not None and not state.memories:
        raise UserError(f"{what} keeps nothing from token to token, so --decode-batch has no meaning for it: leave it out")
    planned = plan_training(
        architecture, ranks=gpus, batch_tokens=batch_tokens, length=length, hardware=hardware, plan=plan, show=show
    )
    weights = weight_bytes(architecture, FORMATS[precision])
    if json:
        print(jsons.dumps({**_plain(planned), **(_plain_state(weights, state) if state else {})}, indent=2))
    else:
        first = [answer(what, planned), *(decoding(weights, precision, state, planned) if state else [])]
        first += [f"{what}: {guess}" for guess in guesses(what)]
        if room is not None and room < length:
            first.append(f"But {what} cannot be run at {length:,} tokens: its position table ends at {room:,}.")
        print("\n".join(page(first, planned, shutil.get_terminal_size().columns)))
    if not planned.fastest:
        raise typer.Exit(1)


def page(first: Sequence[str], planned: Planned, width: int) -> Iterator[str]:
    """The answer, the fastest layouts, and why others are none."""
    for line in first:
        yield from wrapped(line, width)
    if planned.fastest:
        yield from ("", *_table(planned.fastest, width), "")
        yield from wrapped(_assumed(planned), width)
    for each in planned.too_large:
        yield from wrapped(f"Does not fit: {each.layout}: {each.why_not}", width)
    for reason in planned.impossible:
        yield from wrapped(f"Not possible: {reason}", width)


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


COLUMNS: tuple[tuple[str, Callable[[Candidate], str]], ...] = (
    ("layout", lambda each: str(each.layout)),
    ("GB per rank", lambda each: f"{each.memory.total / 1e9:.1f}"),
    ("step s", lambda each: f"{each.time.total:.3g}"),
    ("tokens/s", lambda each: f"{each.tokens_per_second:,.0f}"),
    ("MFU", lambda each: f"{each.mfu:.1%}"),
    ("recomputed", lambda each: each.layout.checkpointing),
    ("micro-batch", lambda each: f"{each.layout.micro_batch} x {each.layout.micro_batches}"),
    ("sharded", lambda each: each.layout.sharded if each.layout.fsdp > 1 or each.layout.expert_fsdp > 1 else "-"),
    ("exposed", lambda each: f"{(each.time.tensor + each.time.experts + each.time.data) / each.time.total:.0%}"),
    ("bubble", lambda each: f"{each.time.bubble / each.time.total:.0%}"),
)
"""The most telling first: a narrow terminal leaves the last ones out, and JSON has them all."""
NUMBERS = ("GB per rank", "step s", "tokens/s", "MFU", "exposed", "bubble")


def _table(candidates: Sequence[Candidate], width: int) -> list[str]:
    shown = fitting([[head, *map(cell, candidates)] for head, cell in COLUMNS], width)
    columns = [COLUMNS[i] for i in shown]
    rows = [[cell(each) for _, cell in columns] for each in candidates]
    return aligned([[head for head, _ in columns], *rows], [head in NUMBERS for head, _ in columns])


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
