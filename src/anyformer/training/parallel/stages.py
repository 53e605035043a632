"""Which layers each process of a pipeline has."""

from __future__ import annotations

from anyformer.planning.partition import partition


def stages_of(depth: int, count: int) -> tuple[range, ...]:
    """The numbers of the layers of each of `count` stages: as even as can be, the longer ones first."""
    ends = partition((1,) * depth, count)
    return tuple(range(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True))
