"""The network above the node: pods and regions, and the bytes that an accelerator sends beyond its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from anyformer.costs.hardware import Hardware
from anyformer.describe import UserError
from anyformer.planning import communication, links
from anyformer.planning.layout import Layout
from anyformer.planning.stages import PlannedStage, UnitRow

POD = 3072
"""Accelerators of a pod: those of Llama 3, 192 racks of 16 with full bisection bandwidth (arXiv 2407.21783, 3.3.1)."""
PODS = 8
"""Pods of a region: those of one building of Llama 3, 24,576 accelerators (there too)."""
OVERSUBSCRIBED = 7
"""How much less an accelerator sends between pods than within one: 1:7 (there too)."""
REGION = 125e9
"""Bytes/s that leave a region of whatever size, per direction, 1 Tbit/s; assumed: nobody publishes what they have."""
FAR = 0.02
"""Seconds of one step of a collective between regions; assumed: light in glass takes 5 ms for 1,000 km."""


@dataclass(frozen=True)
class Tier:
    """Units of `size` accelerators, each of which sends `bandwidth` bytes/s to other units; a step takes `latency` seconds."""

    name: str
    size: int
    bandwidth: float
    latency: float = links.HOP

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"a {self.name} has 1 accelerator or more, got {self.size}")
        if not (self.bandwidth > 0 and math.isfinite(self.bandwidth)):
            raise UserError(f"bandwidth between {self.name}s is a number of bytes/s above 0, got {self.bandwidth}")
        if not (self.latency >= 0 and math.isfinite(self.latency)):
            raise UserError(f"latency between {self.name}s is a number of seconds, 0 or more, got {self.latency}")


@dataclass(frozen=True)
class Fabric:
    """Tiers of a network above the node, from the inside out; without any, every node reaches every other at `network`."""

    tiers: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        for inner, outer in pairwise(self.tiers):
            if outer.size % inner.size:
                raise UserError(
                    f"a {outer.name} of {outer.size:,} accelerators is no number of {inner.name}s of {inner.size:,}: choose "
                    f"{outer.size // inner.size * inner.size or inner.size:,}"
                )
            if outer.bandwidth > inner.bandwidth:
                raise UserError(
                    f"{outer.bandwidth:.4g} bytes/s between {outer.name}s is more than the {inner.bandwidth:.4g} between "
                    f"{inner.name}s, through which they go: lower it"
                )

    def within(self, ranks: int) -> Fabric:
        """The tiers of which so many accelerators are more than one unit."""
        return Fabric(tuple(tier for tier in self.tiers if tier.size < ranks))

    def problems(self, layout: Layout) -> tuple[str, ...]:
        """Why a layout cannot stand on it: a copy of the model's layers and all experts of a layer stay inside one unit."""
        copy = layout.tp * layout.pp
        found = []
        for tier in self.within(layout.ranks).tiers:
            if tier.size % copy:
                found.append(f"tp x pp = {layout.tp} x {layout.pp} ranks do not divide a {tier.name} of {tier.size:,}")
            elif tier.size // layout.pp % layout.ep:
                found.append(f"ep = {layout.ep} reaches beyond a {tier.name} of {tier.size:,} with pp = {layout.pp}")
            elif layout.ranks % tier.size:
                found.append(f"{layout.ranks:,} accelerators are no whole number of {tier.name}s of {tier.size:,}")
        return tuple(found)


def default(hardware: Hardware, pod: int = POD, pods: int = PODS, between: float | None = None, out: float = REGION) -> Fabric:
    """Pods of so many accelerators, so many pods in a region: `between` bytes/s per accelerator, `out` for a region."""
    near = hardware.network / OVERSUBSCRIBED if between is None else between
    if near > hardware.network:
        raise UserError(
            f"{near / 1e9:.4g} GB/s between pods is more than the {hardware.network / 1e9:.4g} GB/s with which an accelerator "
            "of this hardware reaches the network: lower it"
        )
    return Fabric((Tier("pod", pod, near), Tier("region", pod * pods, min(out / (pod * pods), near), FAR)))


def used(accelerators: int, pod: int, pods: int) -> tuple[int, int]:
    """(regions, pods of each): as many as so many accelerators make of equal regions of at most `pods` pods; (1, 0) for none.

    There is at most one region more than so many pods need, and of divisions that leave as few over, the fewest regions.
    """
    whole = accelerators // pod
    choices = [(regions, min(whole // regions, pods)) for regions in range(1, -(-whole // pods) + 2)]
    return max(choices, key=lambda each: (each[0] * each[1], -each[0]))


def crossed(row: UnitRow, stage: PlannedStage, layout: Layout, fabric: Fabric) -> tuple[int, ...]:
    """Bytes that a rank of a stage sends beyond its unit of each tier in a step; part of `step.sent`.

    A unit holds i = size / (tp pp) replicas. Gradients are reduced within it, so that each of its accelerators sums up
    G / i of them with its like in the k other units: 2 (k - 1) / k G / i. Where more replicas divide the states than a unit
    has, 1 / i of what they gather and scatter leaves it, as by a ring through all units.
    """
    m = layout.micro_batches
    gathers = 2 * m if layout.sharded == "weights" else 1
    scatters = 1 if layout.sharded == "optimiser" else m
    dense, expert = stage.parameters.dense(layout.tp), stage.parameters.of_experts(layout.ep)
    found = []
    tiers = fabric.within(layout.ranks).tiers
    for number, tier in enumerate(tiers):
        outer = tiers[number + 1].size if number + 1 < len(tiers) else layout.ranks
        total = 0
        for count, shards, copies, group in (
            (dense, layout.fsdp, layout.replicas, layout.tp),
            (expert, layout.expert_fsdp, layout.expert_copies, layout.ep),
        ):
            inside, around = (max(size // layout.pp // group, 1) for size in (tier.size, outer))
            gradients = row.states.gradients * count
            if shards <= inside:
                total += communication.all_reduce(gradients // inside, min(around, copies) // inside)
                continue
            spread = gathers * communication.all_gather(row.element * count, shards)
            spread += scatters * communication.reduce_scatter(gradients, shards)
            total += spread // inside
            if min(around, copies) > shards:
                total += communication.all_reduce(gradients // shards, min(around, copies) // shards)
        found.append(total)
    return tuple(found)


def crossing_seconds(bytes_sent: tuple[int, ...], layout: Layout, fabric: Fabric, share: float) -> float:
    """Seconds of these bytes over the links of each tier, one tier after the other, of whose bandwidth a share is reached."""
    total = 0.0
    tiers = fabric.within(layout.ranks).tiers
    for number, (sent, tier) in enumerate(zip(bytes_sent, tiers, strict=True)):
        outer = tiers[number + 1].size if number + 1 < len(tiers) else layout.ranks
        total += sent / (tier.bandwidth * share) + 2 * (outer // tier.size - 1) * tier.latency
    return total
