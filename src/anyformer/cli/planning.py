"""`anyformer plan`."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from anyformer.cli import training_plan
from anyformer.cli.amounts import dollars, tokens
from anyformer.cli.answering import Answer, answering
from anyformer.cli.arguments import (
    WHAT,
    Changes,
    Json,
    Tiny,
    architectures,
    machine_option,
    stand_in_warnings,
    workload_option,
)
from anyformer.cli.failure_options import USUAL, FailureOptions
from anyformer.cli.options import grouped
from anyformer.cli.pages import Verbatim
from anyformer.cli.question import Question
from anyformer.cli.queue_options import ArrivalOptions
from anyformer.cli.rollout_options import RolloutOptions
from anyformer.cli.run_file import TrainingOptions, run_named
from anyformer.cli.scale_options import ScaleOptions
from anyformer.costs.rows import PageLine
from anyformer.precision import Kind

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.serving import Service

EXAMPLES = """
anyformer plan llama-2-13b --gpus 8 --hardware a100 --length 8k
anyformer plan llama-3-8b --gpus 64 --tokens 15T --rate 2.5
anyformer plan llama-3.1-405b --gpus 16384 --batch-tokens 16M --mtbf 50000 --tokens 15.6T
anyformer plan llama-3.1-405b --gpus 100000 --tokens 15.6T
anyformer plan deepseek-v3 llama-3-70b --serve --length 128k --users 32 --rate 2.5
anyformer plan llama-3-8b --serve --arrivals 20/s --prompt-tokens "lognormal(700, 1.1)" --output-tokens 200 --limit-ttft 500ms
anyformer plan llama-3-8b --finetune --length 2k --batch 4
"""
tuning_option = partial(typer.Option, rich_help_panel="Fine-tuning (with --finetune)")


@dataclass(frozen=True)
class PlannedMachine:
    """The accelerators, and the numbers that training has on them."""

    gpus: Annotated[
        int | None,
        machine_option(
            help="Use this many accelerators. By default 8 to train, and the cheapest count to serve.", min=1, metavar="COUNT"
        ),
    ] = None
    hardware: Annotated[
        str,
        machine_option(
            help="The accelerator: a100, a100-40, h100, h200, h800, b200, mi300x, l40s, rtx4090, tpu-v5p and others.",
            metavar="NAME",
        ),
    ] = "h100"
    precision: Annotated[
        Kind,
        machine_option(
            help="The number formats of training. With all but pure_bf16, trained weights and sums stay in fp32. auto is that "
            "of a run that is planned, else 16 bits where the hardware has them.",
            metavar="|".join(get_args(Kind)),
        ),
    ] = "auto"
    rate: Annotated[
        float | None,
        machine_option(
            help="Dollars per accelerator and hour, of serving and of training. By default an assumed price; the answer states "
            "it beside every price.",
            parser=dollars,
            metavar="DOLLARS",
        ),
    ] = None


@dataclass(frozen=True)
class TuningOptions(RolloutOptions):
    """The step of a fine-tuning, and its adapters; beside those of reinforcement learning."""

    batch: Annotated[int, tuning_option(help="Sequences of one step.", min=1, metavar="COUNT")] = 1
    rank: Annotated[int, tuning_option(help="Rank of the adapters.", min=1, metavar="COUNT")] = 16


@answering("torch", "numpy")
@grouped
def run(
    names: Annotated[list[str], typer.Argument(help=f"{WHAT} --serve and --finetune take several.", metavar="NAME|PATH")],
    changes: Changes = None,
    tiny: Tiny = False,
    *,
    question: Question,
    machine: PlannedMachine,
    length: Annotated[
        int | None,
        workload_option(
            help="Tokens of a sequence, as in 8k for 8,192; when serving, tokens in a user's cache. By default that "
            "of a run that is planned, else 8k, 2k to fine-tune, or fewer where a position table is shorter.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None,
    training: TrainingOptions,
    failing: FailureOptions,
    scaling: ScaleOptions,
    serving: ArrivalOptions,
    tuning: TuningOptions,
    json: Json = False,
) -> Answer:
    """Find the fastest layout of a training run on many accelerators, or why none fits.

    It says what the whole run takes, --tokens of it: days, accelerator-hours and dollars, with the rate beside them.
    --serve plans serving (with --arrivals under requests that come at random), --finetune fine-tuning. Every layout of
    data, tensor, pipeline and expert parallelism, sharding and recomputation is tried. Above 16,384 accelerators, or
    with --pod, they stand in pods and regions: it adds training with gradients every step and with outer steps between
    regions (DiLoCo), goodput, checkpoints, energy and price. It exits with 1 if nothing fits.

    With --mtbf accelerators fail: it adds the goodput (the share of the time that is new progress), the best interval between
    saves, the other uses of the time, and the wall time of the whole run, by formula and by simulated runs.
    """
    made = architectures(names, changes, tiny=tiny)

    from anyformer.costs.hardware import HERE
    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.page import longest
    from anyformer.plan import Plan

    _refuse(names, question, machine, training, failing, scaling)
    serving.check(serves=question.serve, rolls=question.rl, length=length)
    given = run_named(names[0], training) if question.trains else None
    length = length or (given.length if given else None)
    length = length or min(question.length, *(longest(each) or question.length for each in made.values()))
    on, plan = hardware_of(machine.hardware), Plan.parse({"precision": machine.precision})
    plan = Plan(precision=given.plan.precision) if given and machine.precision == "auto" else plan
    if question.trains:
        rest = (machine.gpus or training_plan.GPUS, length, plan, training, failing, scaling, machine.rate)
        ((name, only),) = made.items()
        answer = training_plan.answered(name, only, on, *rest, given=given, json=json)
    else:
        answer = _other(question, made, serving, tuning, length, on, machine, plan, json=json)
    page = answer.page if json else [*_warnings(made, length), *answer.page]
    return replace(answer, page=page, lasting=machine.hardware != HERE)


def _other(
    question: Question,
    made: dict[str, Architecture],
    serving: ArrivalOptions,
    tuning: TuningOptions,
    length: int,
    on: Hardware,
    machine: PlannedMachine,
    plan: Plan,
    *,
    json: bool,
) -> Answer:
    """The answer to another question than a training run."""
    if question.serve:
        return _serve(made, serving, length, on, machine, plan, json=json)
    if question.rl:
        from anyformer.cli import rollouts

        return rollouts.answered(made, tuning, serving, on, machine.gpus, plan, json=json)
    from anyformer.cli import fine_tuning

    return fine_tuning.answered(made, on, tuning.batch, length, tuning.rank, plan, json=json)


def _warnings(made: dict[str, Architecture], length: int) -> list[PageLine]:
    from anyformer.costs.page import beyond_tables

    return [
        PageLine(f"{name}: {warning}")
        for name, each in made.items()
        for warning in (*stand_in_warnings(name), *beyond_tables(each, length))
    ]


def _refuse(
    names: list[str],
    question: Question,
    machine: PlannedMachine,
    training: TrainingOptions,
    failing: FailureOptions,
    scaling: ScaleOptions,
) -> None:
    """Refuse options of one question beside another."""
    from anyformer.describe import UserError

    trains = question.trains
    in_pods = trains and scaling.asked(machine.gpus or training_plan.GPUS)
    failing.failures(USUAL if in_pods else None)
    if question.serve + question.finetune + question.rl > 1:
        raise UserError("--serve, --finetune and --rl are different questions: ask one at a time")
    if training.write is not None and not trains:
        raise UserError("--write writes a training run: leave it out, or --serve and --finetune")
    if training.data and training.write is None:
        raise UserError("--data is the text of the run that --write writes: add --write RUN.toml")
    if training.write is not None and training.write.exists():
        raise UserError(f"--write: {training.write} is there already: choose another file, or remove it")
    if training.tokens is not None and not trains:
        raise UserError("--tokens is the length of a training run: leave it out, or --serve and --finetune")
    if failing.mtbf is not None and not trains:
        raise UserError("--mtbf is about training on many accelerators: leave it out, or --serve and --finetune")
    if scaling.given and not trains:
        raise UserError(f"{', '.join(scaling.given)} is about training in pods: leave it out, or --serve and --finetune")
    if question.finetune and machine.gpus not in (None, 1):
        raise UserError("--finetune is answered for one accelerator: leave --gpus out, or --finetune to train all on many")
    if len(names) > 1 and trains:
        raise UserError(f"training is planned for one architecture, got {', '.join(names)}; several go with --serve")


def _serve(
    made: dict[str, Architecture],
    asked: ArrivalOptions,
    length: int,
    on: Hardware,
    machine: PlannedMachine,
    plan: Plan,
    *,
    json: bool,
) -> Answer:
    if asked.queues:
        from anyformer.cli import queueing

        return queueing.answered(made, asked, on, machine.gpus, machine.rate, plan, json=json)
    if asked.engine_memory is not None:
        from anyformer.cli import paging

        return paging.answered(made, asked, length, on, machine.gpus or 1, plan, json=json)
    from anyformer.cli import serving
    from anyformer.describe import UserError
    from anyformer.planning.serving import serve

    def served(hardware: Hardware) -> dict[str, Service]:
        services = {}
        for name, each in made.items():
            try:
                services[name] = serve(
                    each, users=asked.users, length=length, hardware=hardware, accelerators=machine.gpus, format=asked.weights,
                    plan=plan,
                )  # fmt: skip
            except UserError as error:
                raise UserError(f"{name}: {error}") from error
        return services

    services = served(on)
    price = serving.RATE if machine.rate is None else machine.rate
    if json:
        return Answer([Verbatim(jsons.dumps(serving.data(list(services), services.values(), price), indent=2))])
    reached = on.efficiency
    newer = served(on.but(efficiency=replace(reached, attention=max(reached.attention, reached.matrix))))
    return Answer(serving.page(services, newer, price, assumed=machine.rate is None))
