"""Time of one training step under a layout: compute, transfers that compute does not hide, and the pipeline's bubble."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Kernel, Unit
from anyformer.costs.kernels import update
from anyformer.costs.roofline import timed
from anyformer.plan import Checkpointing
from anyformer.planning import communication, fabric, links
from anyformer.planning.layout import Layout
from anyformer.planning.routing import dispatched
from anyformer.planning.stages import PlannedStage, UnitRow
from anyformer.precision import Precision

SENDING = 20 / 132
"""Share of an accelerator's processors that send tokens to experts while the others compute: 20 of 132 (DeepSeek-V3, arXiv
2412.19437, section 3.2.2)."""


WAITS = 2e-3
"""Seconds in which an accelerator idles at every mixture of experts for a micro-batch, forward and backward, because its host
reads how many tokens each rank sends before it launches what follows (fitted, as docs/published.md says)."""


@dataclass(frozen=True)
class Sent:
    """Bytes that one rank of a stage sends in a step, by purpose."""

    tensor: int = 0
    """Sums of tensor parallelism: all-reduce, or gather and scatter along positions."""
    experts: int = 0
    """Tokens dispatched to experts and combined, forward and backward."""
    weights: int = 0
    """Sharded weights that are gathered."""
    gradients: int = 0
    """Gradients reduced over fsdp, dp and the replicas of experts, and those of replicated weights over tp."""
    pipeline: int = 0
    """Activations and their gradients, to neighbouring stages."""

    @property
    def total(self) -> int:
        return self.tensor + self.experts + self.weights + self.gradients + self.pipeline


@dataclass(frozen=True)
class LayoutTime:
    """Seconds of a step: three of compute, recomputation included, and three of transfers that compute does not hide."""

    products: float
    mixing: float
    elementwise: float
    tensor: float
    experts: float
    data: float
    bubble: float
    host: float = 0.0
    """In which mixtures of experts wait for the host."""

    @property
    def compute(self) -> float:
        return self.products + self.mixing + self.elementwise

    @property
    def busy(self) -> float:
        """All but what is done once in a step, and the bubble."""
        return self.compute + self.tensor + self.experts + self.host

    @property
    def total(self) -> float:
        return self.busy + self.data + self.bubble


@dataclass(frozen=True)
class Machine:
    """Hardware, the precision of its products, and the network above the node."""

    hardware: Hardware
    precision: Precision
    fabric: fabric.Fabric = field(default_factory=fabric.Fabric)

    @property
    def peak(self) -> float:
        return self.hardware.peak(self.precision.unit)


def sent(row: UnitRow, stage: PlannedStage, layout: Layout, domain: int) -> Sent:
    """Bytes that a rank of a stage sends in one step, with nodes of `domain` ranks.

    tensor     each sum of (b, T, D) over tp ranks: once forward, once backward, once more when recomputed; 2 (t - 1) / t of it,
               as all-reduce or as gather and scatter; dividing positions gathers the input once more for the weights' gradient
               (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2).
    experts    each token to its experts and back, and its gradient likewise, once more forward when recomputed (`routing`).
    weights    by `sharded`: gathered once per step, or forward and backward of each micro-batch.
    gradients  scattered once per step, or after every micro-batch; the shards then all-reduced over replicas.
    """
    m, tokens = layout.micro_batches, layout.micro_batch * row.length
    full = layout.checkpointing == "full"
    stream = tokens * row.width * row.element
    sums = m * (stage.sums + full * stage.forward_sums)
    tensor = sums * communication.all_reduce(stream, layout.tp)
    if layout.sp:
        tensor += m * stage.forward_sums * communication.all_gather(stream, layout.tp)
    mine = tokens // layout.tp if layout.sp else tokens
    experts = sum(_to_experts(row, stage, layout, domain))
    dense, expert = stage.parameters.dense(layout.tp), stage.parameters.of_experts(layout.ep)
    gathers = 2 * m if layout.sharded == "weights" else 1
    scatters = 1 if layout.sharded == "optimiser" else m
    weights = gradients = 0
    for count, shards, copies in (
        (dense, layout.fsdp, layout.dp),
        (expert, layout.expert_fsdp, layout.expert_copies // layout.expert_fsdp),
    ):
        weights += gathers * communication.all_gather(row.element * count, shards)
        gradients += scatters * communication.reduce_scatter(row.states.gradients * count, shards)
        gradients += communication.all_reduce(row.states.gradients * count // shards, copies)
    if layout.sp:
        gradients += communication.all_reduce(row.states.gradients * stage.parameters.replicated, layout.tp)
    pipeline = 0
    if layout.pp > 1:
        pipeline = communication.pipeline_sends(mine, row.width, row.element, micro_batches=m, chunks=layout.chunks)
    return Sent(tensor, experts, weights, gradients, pipeline)


def _to_experts(row: UnitRow, stage: PlannedStage, layout: Layout, domain: int) -> tuple[int, int]:
    """Bytes that a rank of a stage sends to experts and back in a step, within nodes of `domain` ranks and beyond them."""
    mine = layout.micro_batch * row.length // (layout.tp if layout.sp else 1)
    again = layout.checkpointing == "full"
    near, far = dispatched(stage.routed, layout, mine, row.element, domain, again=again)
    return layout.micro_batches * near, layout.micro_batches * far


def step_time(row: UnitRow, stages: tuple[PlannedStage, ...], layout: Layout, machine: Machine) -> LayoutTime:
    """Time of a step, by the slowest stage and the pipeline's bubble.

    products, mixing, elementwise  every kernel of the stage by the roofline (`costs.roofline`): a rank's share of it for each
               micro-batch, recomputed kernels included, and the optimiser's kernel once
    tensor, experts  bytes / bandwidth of their group: the next kernel waits for them, so nothing hides them; but with
               `layout.behind` the share `overlap` of the compute hides those to experts, while they take `SENDING` of it
    data       weights and gradients, less the share `overlap` of the compute beside them. Transfers of each micro-batch have
               all compute beside them, those of each step the last micro-batch's backward pass, and so do those beyond a pod
               or region of `machine.fabric`, which take the links of their tier (`fabric.crossed`).
    bubble     the time of one micro-batch in all other stages, by v chunks: (p - 1) / (v m) of that of all micro-batches where
               stages are alike (Narayanan et al. 2021), and a third of it with `zero_bubble` (Qi et al. 2023); sends between
               stages are hidden by other micro-batches
    """
    times = [_stage_time(row, stage, layout, machine) for stage in stages]
    slowest = max(times, key=lambda time: time.total)
    busy = [time.busy for stage, time in zip(stages, times, strict=True) for _ in range(stage.copies)]
    return replace(slowest, bubble=communication.bubble(busy, layout.micro_batches, layout.chunks, layout.schedule))


def _stage_time(row: UnitRow, stage: PlannedStage, layout: Layout, machine: Machine) -> LayoutTime:
    """Time of a stage, without the bubble."""
    on, m = machine.hardware, layout.micro_batches
    bytes_sent = sent(row, stage, layout, on.domain)
    spent: dict[Unit, float] = {}
    for name, units in stage.kernels.items():
        share = _UnitOfRank(name, layout.micro_batch, layout.checkpointing, layout.tp, layout.ep, layout.sp)
        for kind, seconds in _spent(row, share, on):
            spent[kind] = spent.get(kind, 0.0) + units * m * seconds
    shard = stage.parameters.dense(layout.tp) // layout.fsdp + stage.parameters.of_experts(layout.ep) // layout.expert_fsdp
    updating, _ = timed(update(shard, row.states), on)
    time = LayoutTime(
        products=spent.get("matrix", 0.0),
        mixing=spent.get("attention", 0.0),
        elementwise=spent.get("memory", 0.0) + updating,
        tensor=bytes_sent.tensor / links.ring(on, layout.tp, 1),
        experts=links.exchange(on, *_to_experts(row, stage, layout, on.domain)),
        data=0.0,
        bubble=0.0,
        host=m
        * sum(stage.routed.values())
        * WAITS
        * (layout.waits and layout.ep > 1)
        * (3 / 2 if layout.checkpointing == "full" else 1),
    )
    if layout.behind:
        hidden = min(time.experts, on.efficiency.overlap * time.compute)
        time = replace(time, experts=time.experts - hidden + SENDING * hidden)
    beyond = fabric.crossed(row, stage, layout, machine.fabric)
    seconds, repeated = _data_seconds(stage, bytes_sent, layout, on, sum(beyond))
    far = fabric.crossing_seconds(beyond, layout, machine.fabric, on.efficiency.network)
    last = time.compute * 2 / 3 / m
    hidden = on.efficiency.overlap * (time.compute if repeated else last)
    return replace(time, data=max(seconds + far - hidden, far - on.efficiency.overlap * last, 0.0))


class _UnitOfRank(NamedTuple):
    """One rank's share of a unit for one micro-batch; `unit`: the name under which the row has its kernels."""

    unit: str
    micro_batch: int
    checkpointing: Checkpointing
    tp: int
    ep: int
    sp: bool


@lru_cache(maxsize=1 << 14)
def _of_rank(row: UnitRow, share: _UnitOfRank) -> tuple[Kernel, ...]:
    """The kernels of a share."""
    kernels = row.kernels(share.micro_batch, share.checkpointing).get(share.unit, ())
    return tuple(kernel.of_rank(share.tp, share.ep, sp=share.sp) for kernel in kernels)


@lru_cache(maxsize=1 << 14)
def _spent(row: UnitRow, share: _UnitOfRank, on: Hardware) -> tuple[tuple[Unit, float], ...]:
    """Seconds of a share by what they are spent in: thousands of layouts have it in common."""
    spent: dict[Unit, float] = {}
    for kernel in _of_rank(row, share):
        spent[kernel.unit] = spent.get(kernel.unit, 0.0) + timed(kernel, on)[0]
    return tuple(spent.items())


def _data_seconds(stage: PlannedStage, bytes_sent: Sent, layout: Layout, on: Hardware, beyond: int) -> tuple[float, bool]:
    """Seconds in which weights are gathered and gradients reduced, but for bytes `beyond` a pod, and whether every micro-batch
    does so."""
    speed = links.ring(on, layout.replicas, layout.tp)
    repeated = layout.sharded == "weights" or (layout.sharded == "gradients" and layout.micro_batches > 1)
    rounds = (3 if layout.sharded == "weights" else 1) * layout.micro_batches if repeated else 2
    nodes = layout.replicas // links.local(on, layout.replicas, layout.tp)
    latency = rounds * len(stage.units) * (nodes - 1) * links.HOP
    return max(bytes_sent.weights + bytes_sent.gradients - beyond, 0) / speed + latency, repeated
