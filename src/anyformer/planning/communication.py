"""Bytes that ranks send to one another, in collectives, pipelines and to experts, and the pipeline's bubble.

All figures are bytes that one rank sends (and as many that it receives), S the size of the whole tensor, n the ranks of a
group. Ring algorithms: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner & Gropp 2005, "Optimization of collective communication operations in MPICH".
"""

from __future__ import annotations

from fractions import Fraction


def all_gather(size: int, ranks: int) -> int:
    """(n - 1) / n * S: every rank passes on each shard but the one that its successor began with."""
    return size * (ranks - 1) // ranks


reduce_scatter = all_gather
"""(n - 1) / n * S: every rank passes on partial sums of each shard but its own."""
all_to_all = all_gather
"""(n - 1) / n * S, S the bytes of one rank, which keeps the n-th part that is its own."""


def all_reduce(size: int, ranks: int) -> int:
    """2 * (n - 1) / n * S: a reduce-scatter, then an all-gather."""
    return 2 * size * (ranks - 1) // ranks


def pipeline_sends(tokens: int, width: int, element: int, *, micro_batches: int, chunks: int = 1) -> int:
    """2 * m * v * tokens * D: each micro-batch leaves each of a rank's v chunks once forward, and its gradient once backward.

    The rank is in the middle of the pipeline (Narayanan et al. 2021, arXiv 2104.04473, sections 2.2 and 3.2).
    """
    return 2 * micro_batches * chunks * tokens * width * element


def bubble(stages: int, micro_batches: int, chunks: int = 1) -> Fraction:
    """(p - 1) / (v * m): idle time over the time of ideal work; Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2."""
    return Fraction(stages - 1, chunks * micro_batches)
