"""The planner: every sensible layout of a training step on N accelerators, and the fastest of those that fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import get_args

from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan
from anyformer.planning.dealing import dealt, stages
from anyformer.planning.fabric import Fabric, crossed
from anyformer.planning.layout import DividedSizes, Layout, Sharded, bounds, divisors, nested, problems
from anyformer.planning.rank import memory
from anyformer.planning.staged import Staged, undivided_layers
from anyformer.planning.stages import PlannedStage, UnitRow, row_of
from anyformer.planning.step import LayoutTime, Machine, Sent, sent, step_time

_LARGEST_MICRO_BATCH, _LARGEST_TP = 8, 16


@dataclass(frozen=True)
class Candidate:
    """A layout with its price: memory of the fullest rank, bytes sent by the busiest one, seconds."""

    layout: Layout
    memory: Holding
    sent: Sent
    time: LayoutTime
    tokens: int
    """Tokens of one step."""
    flops: int
    """Exact FLOPs of one step, forward and backward, without recomputation."""
    machine: Machine
    beyond: tuple[int, ...] = ()
    """Of the bytes sent, those that leave the unit of each tier of the fabric: a pod, a region."""

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.time.total

    @property
    def mfu(self) -> float:
        """FLOPs of the model over those of the accelerators at their peak (Chowdhery et al. 2022, arXiv 2204.02311)."""
        return self.flops / (self.time.total * self.layout.ranks * self.machine.peak)

    @property
    def fits(self) -> bool:
        return self.memory.total <= self.machine.hardware.usable_memory

    @cached_property
    def why_not(self) -> str:
        """The memory that does not fit, in words; empty if it fits."""
        if self.fits:
            return ""
        parts = sorted(self.memory.named.items(), key=lambda item: -item[1])
        most = " and ".join(f"{size / 1e9:,.1f} GB of {name}" for name, size in parts[:2])
        return f"{self.memory.total / 1e9:,.1f} GB of {self.machine.hardware.usable_memory / 1e9:.1f} GB, most of it {most}"


@dataclass(frozen=True)
class Planned:
    """The layouts that a search found: the fastest that fit, and the nearest of the meshes that never fit."""

    machine: Machine
    ranks: int
    sequences: int
    length: int
    fastest: tuple[Candidate, ...]
    too_large: tuple[Candidate, ...]
    impossible: Mapping[str, int]
    """How many layouts are not possible at all, by reason."""
    tried: int


def price_layout(
    architecture: Architecture,
    layout: Layout,
    *,
    length: int,
    source_length: int | None = None,
    prefix: int = 0,
    hardware: str | Hardware = "h100",
    plan: Plan | None = None,
    fabric: Fabric | None = None,
) -> Candidate:
    """Price one layout; refuses an impossible one. The layout's checkpointing counts, whatever the plan's."""
    machine = machine_of(hardware, plan := plan or Plan(), fabric)
    if reasons := problems(layout, bounds(architecture), length) + machine.fabric.problems(layout):
        raise UserError(f"{layout} is not possible: {'; '.join(reasons)}")
    row = row_of(architecture, length, plan.but(precision=machine.precision), source_length, prefix)
    return priced(row, stages(row, layout.pp, layout.chunks, even=layout.even), layout, machine)


def plan_training(
    architecture: Architecture,
    *,
    ranks: int,
    batch_tokens: int,
    length: int,
    source_length: int | None = None,
    prefix: int = 0,
    hardware: str | Hardware = "h100",
    plan: Plan | None = None,
    checkpointing: Checkpointing | None = None,
    behind: bool = False,
    show: int = 5,
    runs: bool = False,
    fabric: Fabric | None = None,
) -> Planned:
    """The `show` fastest layouts for batches of `batch_tokens` tokens in sequences of `length`, and why others do not fit.

    Searched: tp up to a node; pp up to a layer per stage; chunks; ep over the experts; states sharded over all replicas, over
    those of one node, pod or region of the `fabric`, or not; micro-batches of 1 to 8; the least sharding and checkpointing that
    fit, or `checkpointing` alone.
    Tokens go to experts once to each node; `behind`: while another micro-batch is computed. `runs`: only layouts that a run
    can have (`Layout.runs`), with layers dealt as a run deals them.
    """
    machine = machine_of(hardware, plan := plan or Plan(), fabric)
    sequences = batch_tokens // length
    if sequences < 1:
        raise UserError(f"a batch of {batch_tokens:,} tokens holds no sequence of {length:,}: raise it, or shorten the length")
    row = row_of(architecture, length, plan.but(precision=machine.precision), source_length, prefix)
    parts_of = cache(lambda pp, chunks: _parts(row, Staged(architecture, pp, chunks), runs=runs))
    fitting: list[Candidate] = []
    large: dict[tuple[int, int, int], Candidate] = {}
    impossible = Counter[str]()
    hows: tuple[Checkpointing, ...] = get_args(Checkpointing) if checkpointing is None else (checkpointing,)
    tried = 0
    sizes = bounds(architecture)
    for layout in _layouts(sizes, ranks, sequences, machine, behind=behind):
        if runs and not replace(layout, sharded="weights").runs:
            continue
        tried += 1
        reasons = problems(layout, sizes, length) + machine.fabric.problems(layout)
        parts, reason = ((), reasons[0]) if reasons else parts_of(layout.pp, layout.chunks)
        if reason:
            impossible[reason] += 1
            continue
        ways: tuple[Sharded, ...] = ("weights",) if runs else get_args(Sharded)
        for candidate in _least(row, parts, layout, machine, hows, ways):
            kind = (layout.tp, layout.pp, layout.ep)
            if candidate.fits:
                fitting.append(candidate)
            elif kind not in large or candidate.memory.total < large[kind].memory.total:
                large[kind] = candidate
    fitted = {(each.layout.tp, each.layout.pp, each.layout.ep) for each in fitting}
    never = sorted((each for kind, each in large.items() if kind not in fitted), key=lambda each: each.memory.total)
    ordered = sorted(fitting, key=lambda each: (each.time.total, each.memory.total))
    # Of layouts that differ only in micro-batches, chunks, sharding or checkpointing, the best is enough.
    fastest = {_mesh(each.layout): each for each in reversed(ordered)}
    best = sorted(fastest.values(), key=lambda each: (each.time.total, each.memory.total))[:show]
    return Planned(machine, ranks, sequences, length, tuple(best), tuple(never[:show]), impossible, tried)


def machine_of(hardware: str | Hardware, plan: Plan, fabric: Fabric | None = None) -> Machine:
    """The hardware, by its name or itself, with the plan's precision, of which `auto` is the faster one there."""
    on = hardware_of(hardware)
    return Machine(on, on.resolved(plan).precision, fabric or Fabric())


def _parts(row: UnitRow, staged: Staged, *, runs: bool) -> tuple[tuple[PlannedStage, ...], str]:
    """The stages of a pipeline, `runs`: as a run deals its layers; and why a run cannot, empty if it can."""
    if not runs or staged.count == 1:
        return stages(row, staged.count, staged.chunks), ""
    problem = undivided_layers(staged)
    return ((), f"pp = {staged.count}: {problem}") if problem else (dealt(row, staged), "")


def _mesh(layout: Layout) -> tuple[int, ...]:
    return layout.dp, layout.fsdp, layout.tp, layout.ep, layout.pp


def _least(
    row: UnitRow,
    parts: tuple[PlannedStage, ...],
    layout: Layout,
    machine: Machine,
    hows: Iterable[Checkpointing],
    ways: tuple[Sharded, ...],
) -> Iterator[Candidate]:
    """For each checkpointing the least sharding that fits, up to the first that needs none; the nearest if none fits.

    More sharding only sends more, and more checkpointing only computes more.
    """
    nearest: Layout | None = None
    fits = False
    ways = ways if layout.fsdp > 1 or layout.expert_fsdp > 1 else ways[:1]
    for how in hows:
        for rank, sharded in enumerate(ways):
            nearest = replace(layout, checkpointing=how, sharded=sharded)
            if memory(row, parts, nearest).total <= machine.hardware.usable_memory:
                fits = True
                yield priced(row, parts, nearest, machine)
                if rank == 0:
                    return
                break
    if not fits and nearest is not None:
        yield priced(row, parts, nearest, machine)


def priced(row: UnitRow, parts: tuple[PlannedStage, ...], layout: Layout, machine: Machine) -> Candidate:
    """A layout with its price, from the units and stages of an architecture."""
    domain = machine.hardware.domain
    most_sent = max((sent(row, stage, layout, domain) for stage in parts), key=lambda stage: stage.total)
    beyond = max((crossed(row, stage, layout, machine.fabric) for stage in parts), key=sum)
    time = step_time(row, parts, layout, machine)
    flops = 3 * row.flops * layout.sequences
    tokens = layout.sequences * row.length
    return Candidate(layout, memory(row, parts, layout), most_sent, time, tokens, flops, machine, beyond)


def _layouts(sizes: DividedSizes, ranks: int, sequences: int, machine: Machine, *, behind: bool) -> Iterator[Layout]:
    """Layouts that use every rank and compute the whole batch, before sharding and checkpointing are chosen."""
    for tp in divisors(ranks, min(machine.hardware.domain, _LARGEST_TP)):
        if sizes.indivisible(tp):
            # One layout gives the reason for all with this tp.
            yield Layout(dp=ranks // tp, tp=tp)
            continue
        for pp in divisors(ranks // tp, sizes.depth):
            replicas = ranks // tp // pp
            if sequences % replicas:
                continue
            for micro_batch in divisors(sequences // replicas, _LARGEST_MICRO_BATCH):
                m = sequences // replicas // micro_batch
                for chunks in _chunks(pp, m, sizes.depth):
                    for fsdp in _shards(replicas, tp, pp, machine):
                        base = Layout(replicas // fsdp, fsdp, tp, True, 1, pp, chunks, micro_batch, m)
                        for layout in _with_experts(base, sizes):
                            yield replace(layout, behind=True) if behind and layout.ep > 1 and m > 1 else layout


def _with_experts(layout: Layout, sizes: DividedSizes) -> Iterator[Layout]:
    """The layout with each way to divide its experts, if it has any."""
    yield layout
    if sizes.experts:
        for ep in divisors(layout.replicas * layout.tp, min(sizes.experts))[1:]:
            if not any(count % ep for count in sizes.experts) and nested(ep, layout.fsdp * layout.tp):
                yield replace(layout, ep=ep)


def _chunks(pp: int, micro_batches: int, depth: int) -> list[int]:
    """Chunks per stage: 1, and up to 6 where m is a multiple of p and each of p * v chunks has a layer at least."""
    if pp == 1 or micro_batches % pp:
        return [1]
    return [v for v in (1, 2, 4, 6) if pp * v <= depth]


def _shards(replicas: int, tp: int, pp: int, machine: Machine) -> list[int]:
    """Numbers of replicas that divide states: all, those of one region, pod or node, or one."""
    units = [tier.size // pp for tier in machine.fabric.tiers] + [machine.hardware.domain]
    sizes = {replicas, 1} | {min(replicas, max(unit // tp, 1)) for unit in units}
    return sorted((size for size in sizes if replicas % size == 0), reverse=True)
