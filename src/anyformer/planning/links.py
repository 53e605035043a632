"""Bandwidth of collectives: rings within a node and across nodes, and the least time of a step of one."""

from __future__ import annotations

from anyformer.costs.hardware import Hardware

HOP = 5e-6
"""Seconds of one step of a collective over the network, however small it is (assumed, for every hardware)."""


def local(hardware: Hardware, members: int, stride: int) -> int:
    """The number of `members` ranks, `stride` apart, that share a node."""
    return max(min(members, hardware.domain // stride), 1)


def ring(hardware: Hardware, members: int, stride: int) -> float:
    """Bytes per second and rank of a ring over `members` ranks, `stride` apart.

    A ring inside a node runs over its links. A ring across nodes runs as several, so that the k members of a node share its
    k network ports: min(links, k * port), as all-reduce across whole nodes of 8 measures.
    """
    near = local(hardware, members, stride)
    raw = hardware.link if near == members else min(hardware.link, near * hardware.network)
    return raw * hardware.efficiency.network


def exchange(hardware: Hardware, near: float, far: float) -> float:
    """Seconds of an all-to-all of `near` bytes per rank within nodes and `far` beyond them, which run side by side."""
    return max(near / hardware.link, far / hardware.network) / hardware.efficiency.network
