"""How the units of the outermost tier train together: a gradient every step, or outer steps between replicas of the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.fabric import Tier
from anyformer.planning.outer_steps import PUBLISHED_LOSSES, OuterSteps
from anyformer.planning.planner import Candidate, Planned, plan_training

LARGEST = 16_384
"""Accelerators of the largest run whose time and failures are held against its report, Llama 3; beyond is extrapolation."""
EVERY_STEP = "gradients every step"


@dataclass(frozen=True)
class Coupling:
    """A layout of one of so many `replicas` of a training run, and what it waits for the others."""

    name: str
    outer: OuterSteps | None
    """None: all accelerators are one replica, which exchanges gradients in every step."""
    candidate: Candidate
    replicas: int
    exposed: float
    """Seconds per step that outer steps take."""
    leaving: float
    """Bytes that leave a unit of the outermost tier per step, on average."""
    busy: float
    """Share of the time in which the links between these units are busy."""

    @property
    def accelerators(self) -> int:
        return self.candidate.layout.ranks * self.replicas

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.candidate.time.total + self.exposed

    @property
    def tokens_per_second(self) -> float:
        return self.candidate.tokens * self.replicas / self.step

    @property
    def mfu(self) -> float:
        """FLOPs of the model over those of the accelerators at their peak."""
        return self.candidate.mfu * self.candidate.time.total / self.step


def outermost(planned: Planned) -> Tier | None:
    """The largest unit of which the accelerators are several."""
    tiers = planned.machine.fabric.within(planned.ranks).tiers
    return tiers[-1] if tiers else None


def couplings(architecture: Architecture, planned: Planned, plan: Plan, every: int | None = None) -> tuple[Coupling, ...]:
    """The fastest layout with a gradient every step, and those of a replica in every outermost unit with the published ways of
    outer steps, `every` so many inner steps where it is given. Replicas share the batch of a step alike."""
    tier = outermost(planned)
    if tier is None or not planned.fastest:
        return ()
    best, machine, replicas = planned.fastest[0], planned.machine, planned.ranks // tier.size
    share = machine.hardware.efficiency.network
    leaving = float(best.beyond[-1] * tier.size)
    sending = leaving / (tier.bandwidth * tier.size * share)
    found = [Coupling(EVERY_STEP, None, best, 1, 0.0, leaving, sending / best.time.total)]
    if planned.sequences % replicas:
        return tuple(found)
    alone = plan_training(
        architecture, ranks=tier.size, batch_tokens=planned.sequences // replicas * planned.length, length=planned.length,
        hardware=machine.hardware, plan=plan, show=1, fabric=machine.fabric,
    )  # fmt: skip
    parameters = architecture.cost(Shape(), Plan()).parameters
    return (*found, *(coupled(each, alone.fastest[0], tier, replicas, parameters) for each in _ways(every) if alone.fastest))


def _ways(every: int | None) -> Iterable[tuple[str, OuterSteps]]:
    for published in PUBLISHED_LOSSES.values():
        outer = published.outer
        yield published.title, outer if every is None else OuterSteps(every, outer.bits, outer.fragments, outer.delay)


def coupled(way: tuple[str, OuterSteps], alone: Candidate, tier: Tier, replicas: int, parameters: int) -> Coupling:
    """Replicas, each of which is a unit of a tier and alone takes `alone`, with outer steps through the links of that tier.

    The bytes of an outer step leave a unit by all its accelerators at once; each fragment takes 2 (k - 1) steps of a ring.
    """
    name, outer = way
    bandwidth = tier.bandwidth * tier.size * alone.machine.hardware.efficiency.network
    size = outer.exchanged(parameters, replicas)
    seconds, latency = size / bandwidth, 2 * (replicas - 1) * tier.latency
    exposed = outer.exposed(seconds, latency, alone.time.total)
    busy = seconds / outer.every / (alone.time.total + exposed)
    return Coupling(name, outer, alone, replicas, exposed, size / outer.every, busy)
