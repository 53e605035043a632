"""Bytes that ranks send to one another in collectives and pipelines, and the pipeline's bubble.

All figures are bytes that one rank sends (and as many that it receives), S the size of the whole tensor, n the ranks of a
group. Ring algorithms: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; Thakur,
Rabenseifner & Gropp 2005, "Optimization of collective communication operations in MPICH".
"""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.mesh import Schedule


def all_gather(size: int, ranks: int) -> int:
    """(n - 1) / n * S: every rank passes on each shard but the one that its successor began with."""
    return size * (ranks - 1) // ranks


reduce_scatter = all_gather
"""(n - 1) / n * S: every rank passes on partial sums of each shard but its own."""


def all_reduce(size: int, ranks: int) -> int:
    """2 * (n - 1) / n * S: a reduce-scatter, then an all-gather."""
    return 2 * size * (ranks - 1) // ranks


def pipeline_sends(tokens: int, width: int, element: int, *, micro_batches: int, chunks: int = 1) -> int:
    """2 * m * v * tokens * D: each micro-batch leaves each of a rank's v chunks once forward, and its gradient once backward.

    The rank is in the middle of the pipeline (Narayanan et al. 2021, arXiv 2104.04473, sections 2.2 and 3.2).
    """
    return 2 * micro_batches * chunks * tokens * width * element


def bubble(busy: Sequence[float], micro_batches: int, chunks: int = 1, schedule: Schedule = "1f1b") -> float:
    """Idle seconds of the slowest of stages that are `busy` for so many seconds: those of one micro-batch in all others, by v.

    (p - 1) / (v * m) of its time where stages are alike (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2); exact where
    the slowest is the last, which has the head, and at most that elsewhere. With `zero_bubble` a third of it: gradients of
    weights are computed meanwhile, forward, backward for inputs and for weights taking as long each: (p - 1) (F + B - W) in
    place of (p - 1) (F + B + W) (Qi et al. 2023, arXiv 2401.10241, table 1, ZB-H1).
    """
    return (sum(busy) - max(busy)) / (chunks * micro_batches) / (3 if schedule == "zero_bubble" else 1)
