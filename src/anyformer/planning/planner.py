"""The planner: every sensible layout of a training step on N accelerators, and the fastest of those that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan
from anyformer.planning.layout import Bounds, Layout, Sharded, bounds, divisors, problems
from anyformer.planning.rank import memory
from anyformer.planning.stages import Row, Stage, row_of, stages
from anyformer.planning.step import LayoutTime, Machine, Sent, sent, step_time

_LARGEST_MICRO_BATCH, _LARGEST_TP = 8, 16
_SHARDED: tuple[Sharded, ...] = ("optimiser", "gradients", "weights")


@dataclass(frozen=True)
class Candidate:
    """A layout with its price: memory of the fullest rank, bytes sent by the busiest one, seconds."""

    layout: Layout
    memory: Holding
    sent: Sent
    time: LayoutTime
    tokens: int
    """Of one step."""
    flops: int
    """Exact, forward and backward, of one step, without what is recomputed."""
    machine: Machine

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.time.total

    @property
    def mfu(self) -> float:
        """FLOPs of the model over those that the accelerators could do meanwhile (Chowdhery et al. 2022, arXiv 2204.02311)."""
        return self.flops / (self.time.total * self.layout.ranks * self.machine.peak)

    @property
    def fits(self) -> bool:
        return self.memory.total <= self.machine.hardware.usable_memory

    @cached_property
    def why_not(self) -> str:
        """What does not fit; empty if it does."""
        if self.fits:
            return ""
        parts = sorted(self.memory.named.items(), key=lambda item: -item[1])
        most = " and ".join(f"{size / 1e9:,.1f} GB of {name}" for name, size in parts[:2])
        return f"{self.memory.total / 1e9:,.1f} GB of {self.machine.hardware.usable_memory / 1e9:.1f} GB, most of it {most}"


@dataclass(frozen=True)
class Planned:
    """What a search found: the fastest layouts that fit, and of the ways to part the model that never fit the nearest."""

    machine: Machine
    ranks: int
    sequences: int
    length: int
    fastest: tuple[Candidate, ...]
    too_large: tuple[Candidate, ...]
    impossible: dict[str, int]
    """Why layouts are not possible at all -> how many."""
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
) -> Candidate:
    """Price one layout; refuses one that is not possible. Layers are computed again as the layout says, whatever the plan."""
    found = problems(layout, bounds(architecture), length)
    if found:
        raise UserError(f"{layout} is not possible: {'; '.join(found)}")
    machine = machine_of(hardware, plan := plan or Plan(precision="bf16"))
    row = row_of(architecture, length, plan.but(precision=machine.precision), source_length, prefix)
    return priced(row, stages(row, layout.pp, layout.chunks), layout, machine)


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
    show: int = 5,
) -> Planned:
    """The `show` fastest layouts for batches of `batch_tokens` tokens in sequences of `length`, and why others do not fit.

    Searched: tp up to a node; pp up to a layer per stage; chunks; ep over the experts; states sharded over all replicas, over
    those of one node, or not; micro-batches of 1 to 8; of sharding and recomputation the least that fits, or of `checkpointing`
    that alone.
    """
    machine = machine_of(hardware, plan := plan or Plan(precision="bf16"))
    sequences = batch_tokens // length
    if sequences < 1:
        raise UserError(f"a batch of {batch_tokens:,} tokens holds no sequence of {length:,}: raise it, or shorten the length")
    row = row_of(architecture, length, plan.but(precision=machine.precision), source_length, prefix)
    parted: dict[tuple[int, int], tuple[Stage, ...]] = {}
    fitting: list[Candidate] = []
    large: dict[tuple[int, int, int], Candidate] = {}
    impossible: dict[str, int] = {}
    hows: tuple[Checkpointing, ...] = get_args(Checkpointing) if checkpointing is None else (checkpointing,)
    tried = 0
    of = bounds(architecture)
    for layout in _layouts(of, ranks, sequences, machine):
        tried += 1
        found = problems(layout, of, length)
        if found:
            impossible[found[0]] = impossible.get(found[0], 0) + 1
            continue
        key = (layout.pp, layout.chunks)
        if key not in parted:
            parted[key] = stages(row, *key)
        for candidate in _least(row, parted[key], layout, machine, hows):
            kind = (layout.tp, layout.pp, layout.ep)
            if candidate.fits:
                fitting.append(candidate)
            elif kind not in large or candidate.memory.total < large[kind].memory.total:
                large[kind] = candidate
    fitted = {(each.layout.tp, each.layout.pp, each.layout.ep) for each in fitting}
    never = sorted((each for kind, each in large.items() if kind not in fitted), key=lambda each: each.memory.total)
    ordered = sorted(fitting, key=lambda each: (each.time.total, each.memory.total))
    # Of those that differ only in micro-batches, chunks, sharding or checkpointing, the best says enough.
    fastest = {_mesh(each.layout): each for each in reversed(ordered)}
    best = sorted(fastest.values(), key=lambda each: (each.time.total, each.memory.total))[:show]
    return Planned(machine, ranks, sequences, length, tuple(best), tuple(never[:show]), impossible, tried)


def machine_of(hardware: str | Hardware, plan: Plan) -> Machine:
    """Named or given; an unresolved `auto` precision is that of the hardware's faster products."""
    on = hardware_of(hardware)
    return Machine(on, on.resolved(plan).number)


def _mesh(layout: Layout) -> tuple[int, ...]:
    return layout.dp, layout.fsdp, layout.tp, layout.ep, layout.pp


def _least(
    row: Row, parts: tuple[Stage, ...], layout: Layout, machine: Machine, hows: Iterable[Checkpointing]
) -> Iterator[Candidate]:
    """For each checkpointing the least sharding that fits, up to the first that needs none; the nearest if none fits.

    Sharding more only sends more, and recomputing more only computes more.
    """
    room = machine.hardware.usable_memory
    nearest: Layout | None = None
    found = False
    ways: tuple[Sharded, ...] = _SHARDED if layout.fsdp > 1 or layout.expert_fsdp > 1 else ("optimiser",)
    for how in hows:
        for rank, sharded in enumerate(ways):
            nearest = replace(layout, checkpointing=how, sharded=sharded)
            if memory(row, parts, nearest).total <= room:
                found = True
                yield priced(row, parts, nearest, machine)
                if rank == 0:
                    return
                break
    if not found and nearest is not None:
        yield priced(row, parts, nearest, machine)


def priced(row: Row, parts: tuple[Stage, ...], layout: Layout, machine: Machine) -> Candidate:
    """What `evaluate` gives, where units and stages are known."""
    each = max((sent(row, stage, layout) for stage in parts), key=lambda one: one.total)
    time = step_time(row, parts, layout, machine)
    flops = 3 * row.flops * layout.sequences
    return Candidate(layout, memory(row, parts, layout), each, time, layout.sequences * row.length, flops, machine)


def _layouts(of: Bounds, ranks: int, sequences: int, machine: Machine) -> Iterator[Layout]:
    """Layouts that use every rank and compute the whole batch, before sharding and checkpointing are chosen."""
    for tp in divisors(ranks, min(machine.hardware.domain, _LARGEST_TP)):
        if of.uncut(tp):
            # Said once; every layout with it is as impossible.
            yield Layout(dp=ranks // tp, tp=tp)
            continue
        for pp in divisors(ranks // tp, of.depth):
            replicas = ranks // tp // pp
            if sequences % replicas:
                continue
            for micro_batch in divisors(sequences // replicas, _LARGEST_MICRO_BATCH):
                m = sequences // replicas // micro_batch
                for chunks in _chunks(pp, m, of.depth):
                    for fsdp in _shards(replicas, tp, machine):
                        base = Layout(replicas // fsdp, fsdp, tp, True, 1, pp, chunks, micro_batch, m)
                        yield from _with_experts(base, of)


def _with_experts(layout: Layout, of: Bounds) -> Iterator[Layout]:
    """The layout with each way to divide its experts, if there are any."""
    yield layout
    if of.experts:
        inner = layout.fsdp * layout.tp
        for ep in divisors(layout.replicas * layout.tp, min(of.experts))[1:]:
            if not any(count % ep for count in of.experts) and (inner % ep == 0 or ep % inner == 0):
                yield replace(layout, ep=ep)


def _chunks(pp: int, micro_batches: int, depth: int) -> list[int]:
    """1, and what interleaving can do: m a multiple of p, at least one layer in each of p * v chunks; up to 6."""
    if pp == 1 or micro_batches % pp:
        return [1]
    return [v for v in (1, 2, 4, 6) if pp * v <= depth]


def _shards(replicas: int, tp: int, machine: Machine) -> list[int]:
    """How many replicas divide states: all, those of one node, or none."""
    return sorted({replicas, min(replicas, max(machine.hardware.domain // tp, 1))} | {1}, reverse=True)
