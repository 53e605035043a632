"""`anyformer plan` for training: the layouts, what failures make of the fastest, and pods and regions."""

from __future__ import annotations

import json as jsons
import math
from typing import TYPE_CHECKING

from anyformer.cli.answering import Answer
from anyformer.cli.failure_options import USUAL, FailureOptions
from anyformer.cli.pages import Item, Verbatim
from anyformer.cli.run_file import TrainingOptions
from anyformer.cli.scale_options import ScaleOptions
from anyformer.cli.terminal import tell

if TYPE_CHECKING:
    from anyformer.cli.billing import WholeRun
    from anyformer.cli.regions import RegionsAnswer
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.failures import Failures
    from anyformer.planning.forecast import Forecast
    from anyformer.planning.planner import Planned
    from anyformer.training.run import Run

GPUS = 8
BATCH_TOKENS = 2**22
PER_ACCELERATOR = 1024
"""Tokens of a step per accelerator in pods, about: Llama 3 has 16 M on 16,384 (arXiv 2407.21783, table 4)."""


def answered(
    what: str,
    architecture: Architecture,
    on: Hardware,
    gpus: int,
    length: int,
    plan: Plan,
    asked: TrainingOptions,
    failing: FailureOptions,
    scaling: ScaleOptions,
    rate: float | None,
    *,
    given: Run | None,
    json: bool,
) -> Answer:
    """The layouts, and what failures make of the fastest; its run is written if asked. Yes if one fits. `given`: the run that
    `what` names, if it does."""
    from anyformer.cli import forecasts, layouts, regions
    from anyformer.planning.advice import advise
    from anyformer.planning.planner import plan_training

    in_pods = scaling.asked(gpus)
    failures = failing.failures(USUAL if in_pods else None)
    fabric, ranks = scaling.fabric(gpus, on) if in_pods else (None, gpus)
    planned = plan_training(
        architecture, ranks=ranks, batch_tokens=asked.batch_tokens or usual_batch(ranks, length, in_pods=in_pods),
        length=length, hardware=on, plan=plan, show=asked.show, runs=asked.write is not None, fabric=fabric,
    )  # fmt: skip
    found = scaled = None
    if failures and planned.fastest and failing.mtbf is not None:
        found = failing.forecast(failures, architecture, planned.fastest[0], asked.whole)
    if failures and in_pods:
        scaled = _in_regions(architecture, planned, gpus, plan, failing, failures, scaling, rate, asked.whole)
    whole = None if in_pods or not planned.fastest else _whole(planned, found, asked.whole, rate)
    page: list[Item] = []
    if json:
        told = {} if found is None else {"failures": forecasts.data(found)}
        told |= {} if scaled is None else {"scale": regions.data(scaled)}
        told |= {} if whole is None else {"run": whole.data}
        page.append(Verbatim(jsons.dumps({"name": what} | layouts.data(planned) | told, indent=2)))
    else:
        advice = None if planned.fastest else advise(architecture, planned, plan)
        below = [] if advice is None else list(advice.lines())
        page += layouts.page(what, planned, below if whole is None else [whole.said])
        page += [] if scaled is None else regions.page(scaled)
        page += [] if found is None else forecasts.page(found, asked.whole)
    line = asked.written(architecture, planned, plan, given) if planned.fastest else None
    if line is not None and json:
        tell(line)
    elif line is not None:
        page.append(Verbatim(line))
    return Answer(page, code=int(not planned.fastest))


def usual_batch(ranks: int, length: int, *, in_pods: bool) -> int:
    """Tokens of a step: about 4 M in a power of two of sequences, which divides among accelerators whatever their length; in
    pods as many sequences per accelerator, or per 2, 4, 8 ... of them, as make about `PER_ACCELERATOR` tokens."""
    if not in_pods:
        return int(length * 2 ** max(0, (BATCH_TOKENS // length).bit_length() - 1))
    sequences = ranks * 2.0 ** round(math.log2(PER_ACCELERATOR / length))
    return length * max(1, int(sequences))


def _whole(planned: Planned, found: Forecast | None, tokens: int, rate: float | None) -> WholeRun:
    """Days and dollars of so many tokens in the fastest layout, with failures where they are foretold."""
    from anyformer.cli.billing import WholeRun
    from anyformer.cli.serving import RATE
    from anyformer.planning.bill import RunBill

    wall = tokens / planned.fastest[0].tokens_per_second if found is None else found.wall
    bill = RunBill(planned.ranks, wall, planned.machine.hardware.power, RATE if rate is None else rate)
    return WholeRun(bill, tokens, assumed=rate is None, failing=found is not None)


def _in_regions(
    architecture: Architecture,
    planned: Planned,
    gpus: int,
    plan: Plan,
    failing: FailureOptions,
    failures: Failures,
    scaling: ScaleOptions,
    rate: float | None,
    tokens: int,
) -> RegionsAnswer:
    """The ways to train in these pods and regions, with failures, energy and price of the whole run."""
    from anyformer.cli.regions import CoupledRun, RegionsAnswer
    from anyformer.cli.serving import RATE
    from anyformer.planning.bill import PUE, CheckpointTraffic, RunBill
    from anyformer.planning.coupling import LARGEST, couplings
    from anyformer.planning.forecast import checkpoint_bytes
    from anyformer.planning.goodput import expected

    runs = []
    power = planned.machine.hardware.power if scaling.power is None else scaling.power
    for each in couplings(architecture, planned, plan, scaling.inner_steps):
        job = failing.job(failures, architecture, each.candidate)
        interval = failing.interval(job, each.step)
        spent = expected(job, interval)
        traffic = CheckpointTraffic(checkpoint_bytes(architecture, each.candidate), job.saves, interval)
        wall = tokens / each.tokens_per_second / spent.goodput
        paid = RATE if rate is None else rate
        bill = RunBill(each.accelerators, wall, power, paid, PUE if scaling.pue is None else scaling.pue)
        runs.append(CoupledRun(each, job, spent, traffic, bill))
    assumed = rate is None, scaling.between_regions is None
    return RegionsAnswer(planned, gpus, tokens, tuple(runs), *assumed, planned.ranks > LARGEST)
