"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from anyformer.cli import failure_options
from anyformer.cli.amounts import tokens
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    WHAT,
    Changes,
    Json,
    Tiny,
    machine_option,
    resolve_architecture,
    stand_in_warnings,
    workload_option,
)
from anyformer.cli.pages import Item, Verbatim
from anyformer.cli.run_file import RunFile
from anyformer.cli.terminal import tell
from anyformer.costs.rows import PageLine
from anyformer.precision import Kind

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.failures import Failures
    from anyformer.planning.serving import Service

LENGTHS = {"train": 8192, "serve": 8192, "finetune": 2048}
"""Default of --length; fewer where a position table is shorter."""
GPUS = 8
BATCH_TOKENS = 2**22
EXAMPLES = """
anyformer plan llama-2-13b --gpus 8 --hardware a100 --length 8k
anyformer plan llama-3.1-405b --gpus 16384 --batch-tokens 16M --mtbf 50000 --tokens 15.6T
anyformer plan deepseek-v3 llama-3-70b --serve --length 128k --users 32 --rate 2.5
anyformer plan llama-3-8b --finetune --length 2k --batch 4
"""
question_option = partial(typer.Option, rich_help_panel="Question")
training_option = partial(typer.Option, rich_help_panel="Training")
serving_option = partial(typer.Option, rich_help_panel="Serving (with --serve)")
tuning_option = partial(typer.Option, rich_help_panel="Fine-tuning (with --finetune)")


@answering("torch", "numpy")
def run(
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} --serve and --finetune take several.", metavar="NAME|PATH")],
    changes: Changes = None,
    tiny: Tiny = False,
    serve: Annotated[
        bool,
        question_option(
            "--serve", help="Plan serving instead: accelerators needed, tokens per second, price per million tokens."
        ),
    ] = False,
    finetune: Annotated[
        bool,
        question_option(
            "--finetune",
            help="Say instead which ways of fine-tuning fit on one accelerator: all weights, the last layers, LoRA, QLoRA.",
        ),
    ] = False,
    gpus: Annotated[
        int | None,
        machine_option(
            help="Use this many accelerators. By default 8 to train, and the cheapest count to serve.", min=1, metavar="COUNT"
        ),
    ] = None,
    hardware: Annotated[
        str,
        machine_option(
            help="The accelerator: a100, a100-40, h100, h200, h800, b200, mi300x, l40s, rtx4090, tpu-v5p and others.",
            metavar="NAME",
        ),
    ] = "h100",
    precision: Annotated[
        Kind,
        machine_option(
            help="The number formats of training. With all but pure_bf16, trained weights and sums stay in fp32. auto takes 16 "
            "bits where the hardware has them.",
            metavar="|".join(get_args(Kind)),
        ),
    ] = "auto",
    length: Annotated[
        int | None,
        workload_option(
            help="Tokens of each sequence, as in 8k for 8,192; when serving, tokens in the cache of each user. By default 8k, "
            "2k to fine-tune, or fewer where a position table is shorter.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        training_option(
            help="Tokens of one step, as in 4M. k and M are 1,024 and 1,048,576. By default about 4M.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    show: Annotated[int, training_option(help="Show this many of the fastest layouts.", min=1, metavar="COUNT")] = 5,
    write: Annotated[
        Path | None,
        training_option(
            help="Write a run of the fastest layout that a run can have today, without a pipeline, into this new file, and say "
            "the line that starts it.",
            metavar="RUN.toml",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        training_option(
            help="The text of the run that --write writes; repeat it for more. By default python-stdlib, the text that comes "
            "with Python.",
            metavar="PATH",
        ),
    ] = None,
    mtbf: failure_options.Mtbf = None,
    detect: failure_options.Detect = None,
    restart: failure_options.Restart = None,
    storage: failure_options.Storage = None,
    background: failure_options.Background = False,
    save: failure_options.Save = None,
    save_every: failure_options.SaveEvery = None,
    spares: failure_options.Spares = None,
    repair: failure_options.Repair = None,
    causes: failure_options.Causes = None,
    tokens: failure_options.Tokens = None,
    users: Annotated[int, serving_option(help="Serve this many users at once.", min=1, metavar="COUNT")] = 1,
    weights: Annotated[
        Literal["bf16", "fp8", "int8", "int4"],
        serving_option(help="Store the weights in this number format; products are in bf16.", metavar="bf16|fp8|int8|int4"),
    ] = "bf16",
    rate: Annotated[
        float | None,
        serving_option(
            help="Dollars per accelerator and hour. By default an assumed price, which the answer states.",
            min=0.0,
            metavar="DOLLARS",
        ),
    ] = None,
    batch: Annotated[int, tuning_option(help="Sequences of one step.", min=1, metavar="COUNT")] = 1,
    rank: Annotated[int, tuning_option(help="Rank of the adapters.", min=1, metavar="COUNT")] = 16,
    json: Json = False,
) -> Answer:
    """Say whether a training run fits on many accelerators, which layout is the fastest, and how fast it is.

    With --serve it plans serving, with --finetune fine-tuning. Every layout of data, tensor, pipeline and expert parallelism,
    sharding and recomputation is tried. The command exits with 1 if nothing fits.

    With --mtbf accelerators fail: it adds the goodput (the share of the time that is new progress), the best interval between
    saves, what the time is lost to, and the wall time of the whole run, by formula and by simulated runs.
    """
    asked = failure_options.FailureOptions(
        mtbf, detect, restart, storage, background, save, save_every, spares, repair, causes, tokens
    )
    failures = asked.failures()
    made = {name: resolve_architecture(name, changes, tiny=tiny) for name in names}

    from anyformer.costs.hardware import HERE
    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.page import beyond_tables, longest
    from anyformer.describe import UserError
    from anyformer.plan import Plan

    if serve and finetune:
        raise UserError("--serve and --finetune are two questions: ask one at a time")
    if write is not None and (serve or finetune):
        raise UserError("--write writes a training run: leave it out, or --serve and --finetune")
    if data and write is None:
        raise UserError("--data is the text of the run that --write writes: add --write RUN.toml")
    if write is not None and write.exists():
        raise UserError(f"--write: {write} is there already: choose another file, or remove it")
    if failures and (serve or finetune):
        raise UserError("--mtbf is about training on many accelerators: leave it out, or --serve and --finetune")
    if finetune and gpus not in (None, 1):
        raise UserError("--finetune is answered for one accelerator: leave --gpus out, or --finetune to train all on many")
    if len(names) > 1 and not (serve or finetune):
        raise UserError(f"training is planned for one architecture, got {', '.join(names)}; several go with --serve")
    default = LENGTHS["serve" if serve else "finetune" if finetune else "train"]
    length = length or min(default, *(longest(each) or default for each in made.values()))
    on, plan = hardware_of(hardware), Plan.parse({"precision": precision})
    warnings = [
        PageLine(f"{name}: {warning}")
        for name, each in made.items()
        for warning in (*stand_in_warnings(name), *beyond_tables(each, length))
    ]
    if serve:
        answer = _serve(made, users, length, on, gpus, weights, plan, rate, json=json)
    elif finetune:
        from anyformer.cli import fine_tuning

        answer = fine_tuning.answered(made, on, batch, length, rank, plan, json=json)
    else:
        (pair,) = made.items()
        # By default a power of two of sequences, which divides among accelerators whatever their length.
        tokens_of_step = length * 2 ** max(0, (BATCH_TOKENS // length).bit_length() - 1)
        into = None if write is None else RunFile(write, tuple(data or ("python-stdlib",)))
        answer = _train(
            *pair, on, gpus or GPUS, batch_tokens or tokens_of_step, length, plan, show, asked, failures, into, json=json
        )
    page = answer.page if json else [*warnings, *answer.page]
    return replace(answer, page=page, lasting=hardware != HERE)


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
) -> Answer:
    from anyformer.cli import serving
    from anyformer.describe import UserError
    from anyformer.planning.serving import serve

    def served(hardware: Hardware) -> dict[str, Service]:
        services = {}
        for name, each in made.items():
            try:
                services[name] = serve(
                    each, users=users, length=length, hardware=hardware, accelerators=gpus, format=weights, plan=plan
                )
            except UserError as error:
                raise UserError(f"{name}: {error}") from error
        return services

    services = served(on)
    price = serving.RATE if rate is None else rate
    if json:
        return Answer([Verbatim(jsons.dumps(serving.data(list(services), services.values(), price), indent=2))])
    reached = on.efficiency
    newer = served(on.but(efficiency=replace(reached, attention=max(reached.attention, reached.matrix))))
    return Answer(serving.page(services, newer, price, assumed=rate is None))


def _train(
    what: str,
    architecture: Architecture,
    on: Hardware,
    gpus: int,
    batch_tokens: int,
    length: int,
    plan: Plan,
    show: int,
    asked: failure_options.FailureOptions,
    failures: Failures | None,
    into: RunFile | None,
    *,
    json: bool,
) -> Answer:
    """The layouts, and what failures make of the fastest; its run is written if asked. Yes if one fits."""
    from anyformer.cli import forecasts, layouts
    from anyformer.planning.advice import advise
    from anyformer.planning.planner import plan_training

    planned = plan_training(
        architecture, ranks=gpus, batch_tokens=batch_tokens, length=length, hardware=on, plan=plan, show=show,
        runs=into is not None,
    )  # fmt: skip
    found = asked.forecast(failures, architecture, planned.fastest[0]) if failures and planned.fastest else None
    page: list[Item] = []
    if json:
        told = {} if found is None else {"failures": forecasts.data(found)}
        page.append(Verbatim(jsons.dumps(layouts.data(planned) | told, indent=2)))
    else:
        advice = None if planned.fastest else advise(architecture, planned, plan)
        page += layouts.page(what, planned, [] if advice is None else list(advice.lines()))
        page += [] if found is None else forecasts.page(found, asked.tokens or failure_options.TOKENS)
    if into is not None and planned.fastest:
        line = into.write(architecture, planned, plan)
        if json:
            tell(line)
        else:
            page.append(Verbatim(line))
    return Answer(page, code=int(not planned.fastest))
