"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli.amounts import tokens
from anyformer.cli.arguments import WHAT, Changes, Tiny, found

if TYPE_CHECKING:
    from rich.table import Table

    from anyformer.costs.fine_tuning import Method
    from anyformer.costs.hardware import Hardware
    from anyformer.costs.text import Line
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.planner import Candidate, Planned

_WIDE = 132
"""Columns of the table; a narrower terminal wraps its lines."""
LENGTHS = {"train": 8192, "serve": 8192, "finetune": 2048}
"""Tokens where no --length is given, or as many as a position table has."""
GPUS = 8
BATCH_TOKENS = 2**22
EXAMPLES = """
Examples:

  anyformer plan llama-2-13b --gpus 8 --hardware a100 --length 8k

  anyformer plan deepseek-v3 llama-3-70b --serve --length 128k --users 32 --rate 2.5

  anyformer plan llama-3-8b --finetune --length 2k --batch 4
"""


def run(
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} Several with --serve or --finetune.", metavar="A [B C ...]")],
    changes: Changes = None,
    tiny: Tiny = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Plan serving: accelerators needed, tokens per second, price per million tokens.")
    ] = False,
    finetune: Annotated[
        bool, typer.Option("--finetune", help="Say which ways of fine-tuning fit on one: all weights, fewer, LoRA, QLoRA.")
    ] = False,
    gpus: Annotated[
        int | None, typer.Option(help="Accelerators: 8 to train on by default, to serve as many as it takes.", min=1)
    ] = None,
    hardware: Annotated[
        str, typer.Option(help="Which: a100, a100-40, h100, h200, h800, b200, mi300x, l40s, rtx4090, tpu-v5p and others.")
    ] = "h100",
    length: Annotated[
        int | None,
        typer.Option(
            help="Tokens per sequence, of serving in each user's cache; 8k is 8,192. By default 8k (to fine-tune 2k), or as "
            "long as can be.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            help="Training: tokens of a step; k and M are 1,024 and 1,048,576. About 4M by default.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Fine-tuning: sequences per step.", min=1)] = 1,
    rank: Annotated[int, typer.Option(help="Fine-tuning: rank of the adapters.", min=1)] = 16,
    users: Annotated[int, typer.Option(help="Serving: how many at once.", min=1)] = 1,
    weights: Annotated[
        Literal["bf16", "fp8", "int8", "int4"], typer.Option(help="Serving: format of the weights; products are in bf16.")
    ] = "bf16",
    rate: Annotated[float | None, typer.Option(help="Serving: dollars per accelerator and hour.", min=0.0)] = None,
    precision: Annotated[Literal["bf16", "fp32"], typer.Option(help="bf16 with sums in fp32, or fp32.")] = "bf16",
    show: Annotated[int, typer.Option(help="Training: layouts to show.", min=1)] = 5,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say what training, serving or fine-tuning takes: the fastest layouts that fit, tokens per second and price."""
    from anyformer.costs.hardware import hardware_of
    from anyformer.costs.page import beyond_tables, longest
    from anyformer.describe import UserError
    from anyformer.plan import Plan

    if serve and finetune:
        raise UserError("--serve and --finetune are two questions: ask one at a time")
    if finetune and gpus not in (None, 1):
        raise UserError("--finetune is answered for one accelerator: leave --gpus out, or --finetune to train all on many")
    if len(names) > 1 and not (serve or finetune):
        raise UserError(f"training is planned for one architecture, got {', '.join(names)}; several go with --serve")
    made = {name: found(name, changes, tiny=tiny) for name in names}
    usual = LENGTHS["serve" if serve else "finetune" if finetune else "train"]
    length = length or min(usual, *(longest(each) or usual for each in made.values()))
    on, plan = hardware_of(hardware), Plan(precision=precision)
    if serve:
        _serve(made, users, length, on, gpus, weights, plan, rate, json=json)
    elif finetune:
        _finetune(made, on, batch, length, rank, plan, json=json)
    else:
        (pair,) = made.items()
        # By default a power of two of sequences, which divides among accelerators whatever their length.
        tokens_of_step = length * 2 ** max(0, (BATCH_TOKENS // length).bit_length() - 1)
        _train(*pair, on, gpus or GPUS, batch_tokens or tokens_of_step, length, plan, show, json=json)
    if not json:
        for name, each in made.items():
            for said in beyond_tables(each, length):
                typer.secho(f"{name}: {said}", fg=typer.colors.YELLOW)


def _serve(
    made: dict[str, Architecture],
    users: int,
    length: int,
    on: Hardware,
    gpus: int | None,
    weights: str,
    plan: Plan,
    rate: float | None,
    *,
    json: bool,
) -> None:
    from anyformer.cli import serving
    from anyformer.describe import UserError
    from anyformer.planning.serving import serve

    services = {}
    for name, each in made.items():
        try:
            services[name] = serve(each, users=users, length=length, hardware=on, accelerators=gpus, format=weights, plan=plan)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
    price = serving.RATE if rate is None else rate
    if json:
        print(jsons.dumps(serving.data(list(services), services.values(), price), indent=2))
    else:
        _print(serving.page(services, price, assumed=rate is None))


def _finetune(
    made: dict[str, Architecture], on: Hardware, batch: int, length: int, rank: int, plan: Plan, *, json: bool
) -> None:
    from anyformer.cli import fine_tuning
    from anyformer.planning.tuned import choices

    priced = {
        name: tuple(choices(each, hardware=on, batch=batch, length=length, rank=rank, plan=plan, own=_own(name)))
        for name, each in made.items()
    }
    if json:
        print(jsons.dumps([fine_tuning.data(name, each, on, length) for name, each in priced.items()], indent=2))
        return
    for name, each in priced.items():
        _print(fine_tuning.page(name, each, on, batch, length))


def _own(name: str) -> Iterator[Method]:
    """The way of tuning of a run, where that is what is named."""
    from anyformer.cli.show import find
    from anyformer.costs.fine_tuning import Method
    from anyformer.resolving import is_run
    from anyformer.training import Run

    if is_run(name):
        run = find(name, {})
        assert isinstance(run, Run)
        yield Method("this run", run.tuning, run.optimiser)


def _train(
    what: str,
    architecture: Architecture,
    on: Hardware,
    gpus: int,
    batch_tokens: int,
    length: int,
    plan: Plan,
    show: int,
    *,
    json: bool,
) -> None:
    from rich.console import Console

    from anyformer.planning.advice import advise
    from anyformer.planning.planner import plan_training

    planned = plan_training(
        architecture, ranks=gpus, batch_tokens=batch_tokens, length=length, hardware=on, plan=plan, show=show
    )
    if json:
        print(jsons.dumps(_plain(planned), indent=2))
        return
    console = Console()
    console.width = max(console.width, _WIDE)
    console.print(answer(what, planned), highlight=False, soft_wrap=True)
    advice = None if planned.fastest else advise(architecture, planned, plan)
    for line in advice.lines() if advice is not None else ():
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    if planned.fastest:
        console.print(_table(planned.fastest))
        console.print(_memory(planned.fastest[0]), highlight=False, soft_wrap=True)
        console.print(_assumed(planned), highlight=False, soft_wrap=True)
    for each in planned.too_large:
        console.print(f"does not fit: {each.layout}: {each.why_not}", highlight=False, soft_wrap=True)
    for reason in planned.impossible:
        console.print(f"not possible: {reason}", highlight=False, soft_wrap=True)


def _print(lines: Iterable[Line]) -> None:
    for line in lines:
        typer.echo(typer.style(line.text, bold=True) if line.strong else line.text)


def answer(what: str, planned: Planned) -> str:
    """Whether it trains, how, and how fast, in a sentence."""
    on = planned.machine.hardware
    asked = f"{what} on {planned.ranks:,} {on.name}, {planned.sequences:,} x {planned.length:,} tokens per step"
    tried = f"({planned.tried:,} layouts tried)"
    if not planned.fastest:
        return f"No: {asked}: nothing fits {tried}."
    best = planned.fastest[0]
    days = 1e12 / best.tokens_per_second / 86_400
    return (
        f"Yes: {asked}: {best.layout}, {best.layout.checkpointing} recomputed, {best.time.total:.3g} s per step, "
        f"{best.tokens_per_second:,.0f} tokens/s, {days:,.3g} days per trillion tokens {tried}."
    )


def _memory(best: Candidate) -> str:
    """What the fullest rank of a layout holds, as `cost` names it."""
    parts = ", ".join(f"{what} {size / 1e9:,.1f}" for what, size in best.memory.named.items())
    return f"Memory of the fullest rank, GB: {parts}; together {best.memory.total / 1e9:,.1f}."


def _assumed(planned: Planned) -> str:
    reached, peak = planned.machine.hardware.efficiency, planned.machine.peak
    return (
        f"Assumed: {reached.matrix:.0%} of {peak / 1e12:.0f} TFLOP/s in matrix products, {reached.attention:.0%} in attention, "
        f"{reached.network:.0%} of the links' bandwidth, {reached.overlap:.0%} of compute hides transfers of weights and "
        "gradients; activations as eager PyTorch keeps them, where weights are divided with an attention that writes no scores."
    )


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
