"""Bytes at sizes that were not traced, from sizes that were.

Every storage is a product of sizes: it grows evenly with the batch, and with the length as a polynomial of degree two, once
the length is past every window and as long as it is the same multiple of chunks and blocks plus the same rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from anyformer.costs.saved.live_bytes import LiveBytes
from anyformer.costs.saved.record import Saved, SavedTensor

MANY = 1 << 16
"""The largest batch that is traced: beyond, sizes overflow."""
STEP = 1 << 15
"""Distance of the lengths from which a longer one follows: more than most windows."""
LONG = 4 * STEP
"""The shortest length that is not traced."""


def at_length(length: int, at: Callable[[int], Saved]) -> Saved:
    """Tensors at a length, from three shorter ones by differences: f(n) = f(0) + n d + n (n - 1) / 2 dd, n in steps."""
    rest, steps = length % STEP, length // STEP
    first, second, third = (at(rest + STEP * n) for n in (1, 2, 3))
    n = steps - 1

    def grown(a: int, b: int, c: int) -> int:
        return a + n * (b - a) + n * (n - 1) // 2 * ((c - b) - (b - a))

    return _combined((first, second, third), grown)


def at_batch(ends: Sequence[Saved], batches: tuple[int, int], batch: int) -> Saved:
    """Tensors at a batch, from those at two others by their difference."""
    few, more = batches
    return _combined(ends, lambda a, b: a + (b - a) * (batch - few) // (more - few))


def follows_batch(ends: Sequence[Saved], batches: tuple[int, int], far: Saved, batch: int) -> bool:
    """Whether the tensors at a batch far off are those that follow from two others."""
    return _alike(ends) and _alike((*ends, far)) and at_batch(ends, batches, batch) == far


def _alike(saved: Sequence[Saved]) -> bool:
    """Whether all have the same tensors in the same order, whatever their sizes."""
    return all([x._replace(bytes=0) for x in a.tensors] == [x._replace(bytes=0) for x in b.tensors] for a, b in pairwise(saved))


def _combined(saved: Sequence[Saved], grown: Callable[..., int]) -> Saved:
    """Sizes combined tensor by tensor, or kind by kind where a loop made more of them."""
    first, *_ = saved
    if _alike(saved):
        tensors = [
            same[0]._replace(bytes=grown(*(tensor.bytes for tensor in same)))
            for same in zip(*(trace.tensors for trace in saved), strict=True)
        ]
        return Saved(tuple(tensors), first.like, _live(saved, grown))
    sums = [_by_kind(trace) for trace in saved]
    kinds = dict.fromkeys(kind for kinds in sums for kind in kinds)
    made = [kind._replace(bytes=grown(*(bytes[kind] for bytes in sums))) for kind in kinds]
    return Saved(tuple(made), first.like, _live(saved, grown))


def _live(saved: Sequence[Saved], grown: Callable[..., int]) -> tuple[LiveBytes, ...]:
    sizes = [{(one.layer, one.before): one.bytes for one in trace.live} for trace in saved]
    places = [place for place in sizes[0] if all(place in others for others in sizes)]
    return tuple(LiveBytes(*place, grown(*(each[place] for each in sizes))) for place in places)


def _by_kind(saved: Saved) -> Counter[SavedTensor]:
    """Bytes of tensors that differ in their step alone."""
    sums = Counter[SavedTensor]()
    for tensor in saved.tensors:
        sums[tensor._replace(bytes=0, step=0)] += tensor.bytes
    return sums
