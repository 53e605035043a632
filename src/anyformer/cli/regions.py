"""The page of `anyformer plan` above one pod: pods and regions, outer steps, checkpoints, failures, energy and price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyformer.cli.billing import at
from anyformer.cli.forecasts import lasting
from anyformer.cli.pages import Item, PageTable, Paragraph
from anyformer.costs.figures import scaled
from anyformer.costs.rows import PageLine

if TYPE_CHECKING:
    from anyformer.planning.bill import CheckpointTraffic, RunBill
    from anyformer.planning.coupling import Coupling
    from anyformer.planning.failures import TrainingJob
    from anyformer.planning.goodput import Spent
    from anyformer.planning.planner import Planned

DAY = 86400.0


@dataclass(frozen=True)
class CoupledRun:
    """A way to train, what failures make of it, and what the whole run takes; `job` and `spent` are of one replica."""

    coupling: Coupling
    job: TrainingJob
    spent: Spent
    traffic: CheckpointTraffic
    bill: RunBill


@dataclass(frozen=True)
class RegionsAnswer:
    """The ways to train on so many `given` accelerators, of which some are left over, for so many tokens."""

    planned: Planned
    given: int
    tokens: int
    runs: tuple[CoupledRun, ...]
    assumed_rate: bool
    assumed_links: bool
    """Whether nobody said what leaves a region."""
    extrapolated: bool


def page(found: RegionsAnswer) -> Iterator[Item]:
    """Where the accelerators stand, the ways to train, what is published of their loss, and the assumptions of the figures."""
    yield PageLine("")
    yield from map(Paragraph, _stands(found))
    if not found.runs:
        return
    yield from (
        PageLine(""),
        PageTable((f"between {_tier(found.planned)}s", *HEADS), tuple(map(_row, found.runs)), HEADS),
        PageLine(""),
    )
    yield from map(Paragraph, (*_losses(found), _saves(found.runs), _failing(found.runs[0]), _taken(found)))


HEADS = ("step s", "tokens/s", "MFU", "Gbit/s", "busy", "goodput", "days", "GWh", "M$")
"""The most important first: a narrow terminal leaves the last ones out, and JSON has them all."""


def _tier(planned: Planned) -> str:
    """The name of the outermost tier."""
    return planned.machine.fabric.within(planned.ranks).tiers[-1].name


def _row(run: CoupledRun) -> tuple[str, ...]:
    each, bill = run.coupling, run.bill
    return (
        each.name if each.outer is None else f"{each.name}, every {each.outer.every}",
        f"{each.step:.3g}",
        f"{each.tokens_per_second:,.0f}",
        f"{each.mfu:.1%}",
        f"{each.leaving * 8 / each.step / 1e9:,.3g}",
        f"{each.busy:.0%}",
        f"{run.spent.goodput:.1%}",
        f"{bill.wall / DAY:,.3g}",
        "-" if bill.energy is None else f"{bill.energy / 1e9:,.3g}",
        f"{bill.price / 1e6:,.3g}",
    )


def _stands(found: RegionsAnswer) -> Iterator[str]:
    """Whether it is extrapolation, and what stands where."""
    planned = found.planned
    if found.extrapolated:
        yield (
            "Extrapolation: no run above 16,384 accelerators is published with its step time and its failures. All figures for "
            f"{planned.ranks:,} follow from the model of smaller runs, and no measurement holds them."
        )
    tiers = planned.machine.fabric.within(planned.ranks).tiers
    units = [
        f"{planned.ranks // tier.size:,} {tier.name}s of {tier.size:,}, out of each {_bits(tier.bandwidth * tier.size)}"
        for tier in reversed(tiers)
    ]
    if found.assumed_links and tiers and tiers[-1].name == "region":
        units[0] += " (assumed: give yours with --between-regions)"
    left = found.given - planned.ranks
    rest = f"; {left:,} of {found.given:,} are left over and stand by" if left else ""
    inside = f"{_bits(planned.machine.hardware.network)} per accelerator between nodes of a pod"
    yield f"Network: {'; '.join([*units, inside])}{rest}."


def _bits(bandwidth: float) -> str:
    return f"{scaled(bandwidth * 8)}bit/s"


def _losses(found: RegionsAnswer) -> Iterator[str]:
    from anyformer.planning.outer_steps import PUBLISHED_LOSSES

    if len(found.runs) == 1:
        return
    for each in PUBLISHED_LOSSES.values():
        rows = "; ".join(f"{what}: {outer:.2f} instead of {synchronous:.2f}" for what, synchronous, outer in each.rows)
        yield (
            f"{each.title}, as published ({each.source}): {each.measure}, {each.parameters / 1e9:g} billion parameters, every "
            f"{each.outer.every} inner steps in {each.outer.bits} bits: {rows}. Its largest model has {each.largest / 1e9:g} "
            "billion; what the loss of a larger one becomes is not known here."
        )


def _saves(runs: Sequence[CoupledRun]) -> str:
    words = []
    for run in runs:
        if run.coupling.replicas == runs[0].coupling.replicas or run is runs[1]:
            saves, traffic, count = run.job.saves, run.traffic, run.coupling.replicas
            who = "a checkpoint" if count == 1 else f"with outer steps {count} of them, one per replica"
            words.append(
                f"{who} of {traffic.whole / 1e12:.3g} TB every {lasting(traffic.interval)}, written in {lasting(saves.write)}: "
                f"{traffic.share:.1%} of the bandwidth of the storage, {count * traffic.daily / 1e15:.3g} PB a day"
            )
    return f"Checkpoints: {'; '.join(words)}."


def _failing(run: CoupledRun) -> str:
    told = run.job.failures
    return (
        f"Failures: at {told.mtbf / 3600:,.6g} hours per accelerator, one per {lasting(run.job.mtbf)} of all of them, "
        f"noticed after {lasting(told.detect)}, started again in {lasting(told.restart)}. With outer steps a failure stops one "
        "replica, and the others are counted as if they went on: their goodput is an upper bound, and that of the first row "
        "what is left where all wait."
    )


def _taken(found: RegionsAnswer) -> str:
    bill = found.runs[0].bill
    known = bill.power is not None
    power = f"{bill.power:,g} W per accelerator all the time" if known else "no energy: its power is not known, give --power"
    return (
        f"Days, energy and price are of {found.tokens / 1e12:,.6g} trillion tokens: {power}, PUE {bill.pue:g}, hosts and "
        f"network left out; {at(bill.rate, found.assumed_rate)}. Gbit/s: what leaves a {_tier(found.planned)} on "
        "average; busy: the share of the time in which its links are. Outer steps keep 8 bytes per parameter more, in the "
        "memory of hosts."
    )


def data(found: RegionsAnswer) -> dict[str, Any]:
    """The answer as plain data for JSON: bytes, seconds, watt-hours, dollars."""
    from anyformer.planning.outer_steps import PUBLISHED_LOSSES

    planned = found.planned
    return {
        "extrapolated": found.extrapolated,
        "accelerators": {"given": found.given, "used": planned.ranks},
        "tiers": [
            {"name": tier.name, "size": tier.size, "units": planned.ranks // tier.size, "bandwidth": tier.bandwidth,
             "latency": tier.latency}
            for tier in planned.machine.fabric.within(planned.ranks).tiers
        ],
        "tokens": found.tokens,
        "ways": list(map(_way, found.runs)),
        "published_losses": [
            {"title": each.title, "source": each.source, "measure": each.measure, "parameters": each.parameters,
             "every": each.outer.every, "rows": [list(row) for row in each.rows], "largest": each.largest}
            for each in PUBLISHED_LOSSES.values()
        ],
    }  # fmt: skip


def _way(run: CoupledRun) -> dict[str, Any]:
    from dataclasses import asdict

    each, traffic, bill = run.coupling, run.traffic, run.bill
    return {
        "name": each.name,
        "outer_steps": None if each.outer is None else asdict(each.outer),
        "replicas": each.replicas,
        "layout": asdict(each.candidate.layout),
        "step": each.step,
        "exposed": each.exposed,
        "tokens_per_second": each.tokens_per_second,
        "mfu": each.mfu,
        "leaving_bytes_per_step": each.leaving,
        "busy": each.busy,
        "goodput": run.spent.goodput,
        "failures_per_day": run.spent.failures * DAY * each.replicas,
        "checkpoint": {
            "bytes": traffic.whole,
            "interval": traffic.interval,
            "write": traffic.saves.write,
            "share_of_storage": traffic.share,
            "bytes_per_day": traffic.daily * each.replicas,
        },
        "wall": bill.wall,
        "accelerator_hours": bill.hours,
        "watt_hours": bill.energy,
        "rate": bill.rate,
        "dollars": bill.price,
    }
