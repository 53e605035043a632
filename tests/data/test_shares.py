"""Which part of a mixture each row is of: exact shares, each sample once, and any row on its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data import Shares, quotas
from anyformer.data.shares import BLOCK
from effort import examples

WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=5)


@st.composite
def mixtures(draw) -> tuple[list[int], list[int | None], int]:
    """Weights, bounds of which one at least is absent, and a seed."""
    weights = draw(WEIGHTS)
    bounds = draw(st.lists(st.none() | st.integers(0, 4 * BLOCK), min_size=len(weights), max_size=len(weights)))
    bounds[draw(st.integers(0, len(weights) - 1))] = None
    return weights, bounds, draw(st.integers(0, 2**40))


@given(WEIGHTS, st.integers(0, 3000))
def test_quotas_are_the_largest_remainders(weights, rows):
    found = quotas(weights, rows)
    exact = [Fraction(rows * weight, sum(weights)) for weight in weights]
    assert sum(found) == rows
    assert all(0 <= quota - int(share) <= 1 for quota, share in zip(found, exact, strict=True))
    rounded_up = [share % 1 for quota, share in zip(found, exact, strict=True) if quota > share]
    rounded_down = [share % 1 for quota, share in zip(found, exact, strict=True) if quota <= share and share % 1]
    assert min(rounded_up, default=1) >= max(rounded_down, default=0)


def test_seven_to_three():
    shares = Shares.of([0.7, 0.3], [None, None], seed=5)
    parts, _ = shares(np.arange(4 * BLOCK))
    assert np.bincount(parts).tolist() == [2800, 1200]
    for block in range(4):
        assert np.bincount(parts[block * BLOCK : (block + 1) * BLOCK]).tolist() == [700, 300]
    # Mixed throughout a block, not one part after the other.
    assert 40 < np.bincount(parts[:200])[1] < 80


def test_a_part_that_ends_leaves_its_rows_to_the_others_in_proportion():
    shares = Shares.of([5, 3, 2], [1200, None, None], seed=0)
    parts, _ = shares(np.arange(5 * BLOCK))
    counts = [np.bincount(parts[start : start + BLOCK], minlength=3).tolist() for start in range(0, 5 * BLOCK, BLOCK)]
    assert counts == [[500, 300, 200], [500, 300, 200], [200, 480, 320], [0, 600, 400], [0, 600, 400]]


@examples(60)
@given(mixtures())
def test_each_part_gives_its_first_samples_once(mixture):
    weights, bounds, seed = mixture
    shares = Shares.of(weights, bounds, seed)
    parts, numbers = shares(np.arange(6 * BLOCK))
    for part, bound in enumerate(bounds):
        own = np.sort(numbers[parts == part])
        np.testing.assert_array_equal(own, np.arange(len(own)))
        assert bound is None or len(own) <= bound
    assert shares.given(6 * BLOCK).tolist() == np.bincount(parts, minlength=len(weights)).tolist()
    assert shares.given(2345).tolist() == np.bincount(parts[:2345], minlength=len(weights)).tolist()


@examples(60)
@given(mixtures(), st.lists(st.integers(0, 9 * BLOCK), min_size=1, max_size=40))
def test_a_row_does_not_depend_on_the_rows_asked_for_with_it(mixture, rows):
    weights, bounds, seed = mixture
    shares = Shares.of(weights, bounds, seed)
    together = shares(np.array(rows))
    alone = [shares(np.array([row])) for row in rows]
    assert together[0].tolist() == [int(part[0]) for part, _ in alone]
    assert together[1].tolist() == [int(number[0]) for _, number in alone]


def test_the_seed_decides_the_order():
    one, other = (Shares.of([1, 1], [None, None], seed)(np.arange(200))[0].tolist() for seed in (0, 1))
    assert one != other
