"""The formulas against what they stand for: rings that pass real numbers on, and pipelines run step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from anyformer.planning.communication import all_gather, all_reduce, bubble, reduce_scatter
from anyformer.planning.layout import Layout
from anyformer.planning.rank import in_flight


def ring_reduce_scatter(ranks: list[list[int]]) -> int:
    """Every rank holds n blocks; afterwards rank r holds the sum of block r + 1. Returns numbers sent by each rank."""
    n = len(ranks)
    for step in range(n - 1):
        moving = [(rank, (rank - step) % n, ranks[rank][(rank - step) % n]) for rank in range(n)]
        for rank, block, value in moving:
            ranks[(rank + 1) % n][block] += value
    return n - 1


def ring_all_gather(ranks: list[list[int]]) -> int:
    """Rank r starts with block r + 1 right; afterwards every rank has all."""
    n = len(ranks)
    for step in range(n - 1):
        moving = [(rank, (rank + 1 - step) % n, ranks[rank][(rank + 1 - step) % n]) for rank in range(n)]
        for rank, block, value in moving:
            ranks[(rank + 1) % n][block] = value
    return n - 1


@pytest.mark.parametrize("n", range(1, 9))
def test_rings_send_what_the_formulas_say(n):
    draw = random.Random(n)
    block = 1000  # bytes that stand for one number
    held = [[draw.randrange(100) for _ in range(n)] for _ in range(n)]
    sums = [sum(column) for column in zip(*held, strict=True)]
    scattered = ring_reduce_scatter(held)
    gathered = ring_all_gather(held)
    assert all(rank == sums for rank in held)
    assert reduce_scatter(n * block, n) == scattered * block
    assert all_gather(n * block, n) == gathered * block
    assert all_reduce(n * block, n) == (scattered + gathered) * block


def pipeline(p: int, m: int, v: int, takes: Sequence[int] = ()) -> tuple[int, list[int]]:
    """Runs one forward, one backward (interleaved if v > 1; a backward takes twice as long) from its orders and dependencies.

    `takes`: seconds of a forward pass of one micro-batch through each stage, 1 a chunk by default. Returns the idle seconds
    of the slowest stage, and the chunks in flight at most on each.
    """
    takes = takes or [1] * p
    orders: list[list[tuple[str, int, int]]] = []
    for stage in range(p):
        turns = range(m * v)
        # Of every p micro-batches first chunk 0, then chunk 1, ...; backward the other way round.
        forward = [("F", turn % p + turn // (p * v) * p, turn // p % v) for turn in turns] if v > 1 else []
        forward = forward or [("F", turn, 0) for turn in turns]
        backward = [("B", batch, v - 1 - chunk) for _, batch, chunk in forward]
        warm = min(2 * (p - stage - 1) + (v - 1) * p if v > 1 else p - stage - 1, m * v)
        steady = [item for pair in zip(forward[warm:], backward, strict=False) for item in pair]
        orders.append(forward[:warm] + steady + backward[m * v - warm :])
    done: dict[tuple[str, int, int, int], int] = {}
    clock, most, flying, at = [0] * p, [0] * p, [0] * p, [0] * p
    while any(at[s] < len(orders[s]) for s in range(p)):
        moved = False
        for s in range(p):
            if at[s] == len(orders[s]):
                continue
            kind, batch, chunk = orders[s][at[s]]
            if kind == "F":
                needs = ("F", batch, chunk, s - 1) if s else ("F", batch, chunk - 1, p - 1)
                first = s == 0 and chunk == 0
            else:
                needs = ("B", batch, chunk, s + 1) if s < p - 1 else ("B", batch, chunk + 1, 0)
                first = s == p - 1 and chunk == v - 1
                needs = ("F", batch, chunk, s) if first else needs
                first = False
            if not first and needs not in done:
                continue
            clock[s] = max(clock[s], 0 if first else done[needs]) + takes[s] * (1 if kind == "F" else 2)
            done[kind, batch, chunk, s] = clock[s]
            flying[s] += 1 if kind == "F" else -1
            most[s] = max(most[s], flying[s])
            at[s] += 1
            moved = True
        assert moved, "a deadlock: the orders contradict each other"
    return max(clock) - 3 * m * v * max(takes), most


@pytest.mark.parametrize(
    ("p", "m", "v"), [(1, 4, 1), (2, 4, 1), (4, 4, 1), (4, 16, 1), (8, 6, 1), (2, 4, 2), (4, 8, 2), (4, 8, 3)]
)
def test_pipelines_idle_and_keep_what_the_formulas_say(p, m, v):
    idle, most = pipeline(p, m, v)
    if m >= p:
        assert idle == bubble([3 * m * v] * p, m, v)
    layout = Layout(pp=p, chunks=v, micro_batches=m)
    for stage in range(p):
        flying, of = in_flight(layout, stage)
        assert (flying, of) == (most[stage], v)


@pytest.mark.parametrize("takes", [[1, 1, 1, 3], [2, 1, 4], [3, 1, 1, 1], [1, 2, 1], [5, 2]])
def test_stages_of_other_length_idle_as_the_formula_says(takes):
    p, m = len(takes), 8
    idle, _ = pipeline(p, m, 1, takes)
    said = bubble([3 * m * each for each in takes], m)
    assert idle == said if takes[-1] == max(takes) else idle <= said


def test_the_first_stage_keeps_as_much_as_published():
    """p (1 + (p - 1) / (p v)) micro-batches: Korthikanti et al. 2022, section 4.2.3."""
    flying, of = in_flight(Layout(pp=8, chunks=3, micro_batches=64), 0)
    assert Fraction(flying, of) == 8 * (1 + Fraction(8 - 1, 8 * 3))
