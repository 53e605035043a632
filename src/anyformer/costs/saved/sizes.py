"""Bytes at sizes that were not traced, from those that were.

Every storage is a product of sizes: it grows evenly with the batch, and with the length as a polynomial of degree two, once
the length is past every window and as long as it is the same multiple of chunks and blocks plus the same rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from anyformer.costs.saved.record import Saved, SavedTensor

MANY = 1 << 16
"""Rows up to which a pass is traced as it is: beyond, sizes overflow."""
STEP = 1 << 15
"""Between the lengths from which a longer one follows: beyond most windows."""
LONG = 4 * STEP
"""Positions below which a pass is traced as it is."""


def at_length(length: int, at: Callable[[int], Saved]) -> Saved:
    """From three lengths, by differences: f(n) = f(0) + n d + n (n - 1) / 2 dd, n in steps."""
    rest, steps = length % STEP, length // STEP
    first, second, third = (at(rest + STEP * n) for n in (1, 2, 3))
    n = steps - 1

    def grown(a: int, b: int, c: int) -> int:
        return a + n * (b - a) + n * (n - 1) // 2 * ((c - b) - (b - a))

    return _combined((first, second, third), grown)


def at_batch(ends: Sequence[Saved], batches: tuple[int, int], batch: int) -> Saved:
    """From two batches, by their difference."""
    (few, more) = batches
    return _combined(ends, lambda a, b: a + (b - a) * (batch - few) // (more - few))


def follows_batch(ends: Sequence[Saved], batches: tuple[int, int], far: Saved, batch: int) -> bool:
    """Whether a batch far off is what follows from two others."""
    return _alike(ends) and _alike((*ends, far)) and at_batch(ends, batches, batch) == far


def _alike(saved: Sequence[Saved]) -> bool:
    """Whether they have the same tensors in the same order, whatever their sizes."""
    return all([x._replace(bytes=0) for x in a.tensors] == [x._replace(bytes=0) for x in b.tensors] for a, b in pairwise(saved))


def _combined(saved: Sequence[Saved], grown: Callable[..., int]) -> Saved:
    """Tensor by tensor, or where a loop made more of them kind by kind."""
    first, *_ = saved
    if _alike(saved):
        tensors = [
            same[0]._replace(bytes=grown(*(each.bytes for each in same)))
            for same in zip(*(each.tensors for each in saved), strict=True)
        ]
        return Saved(tuple(tensors), first.like)
    sums = [_by_kind(each) for each in saved]
    kinds = dict.fromkeys(kind for each in sums for kind in each)
    made = [kind._replace(bytes=grown(*(each.get(kind, 0) for each in sums))) for kind in kinds]
    return Saved(tuple(made), first.like)


def _by_kind(saved: Saved) -> dict[SavedTensor, int]:
    """Bytes of those that differ in their number alone."""
    sums: dict[SavedTensor, int] = {}
    for each in saved.tensors:
        kind = each._replace(bytes=0, step=0)
        sums[kind] = sums.get(kind, 0) + each.bytes
    return sums
