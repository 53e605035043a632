"""Laws of loss and compute on synthetic numbers whose law is known, and the interval of where two of them cross."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anyformer.studies.laws import ComputeLaw, _draws, crossed, crossing, fit

FLOPS = [1e12, 3e12, 1e13, 3e13, 1e14]


def losses(floor, scale, exponent, flops=FLOPS):
    return np.array([floor + scale * (each / 1e13) ** -exponent for each in flops])


@pytest.mark.parametrize("law", [(2.0, 1.0, 0.3), (0.5, 2.0, 0.08), (1.8, 0.4, 1.2)])
def test_the_law_comes_out(law):
    found = fit(FLOPS, losses(*law))
    assert found.floor == pytest.approx(law[0], abs=0.02)
    assert found.exponent == pytest.approx(law[2], rel=0.02)
    assert found.at(np.array([1e16]))[0] == pytest.approx(losses(*law, flops=[1e16])[0], abs=0.02)


def test_no_law_has_a_negative_floor_or_rises():
    assert fit(FLOPS, losses(0.0, 1.0, 0.5) - 0.01).floor >= 0
    assert fit(FLOPS, [1.0, 1.1, 1.2, 1.3, 1.4]).scale == 0


def test_a_crossing_is_where_both_are_equal():
    """2 + x^-0.2 and 1.9 + 1.1 x^-0.2 are equal where 0.1 x^-0.2 = 0.1, at x = 1."""
    one, other = fit(FLOPS, losses(2.0, 1.0, 0.2)), fit(FLOPS, losses(1.9, 1.1, 0.2))
    assert crossing(one, other, 1e12, 1e14) == pytest.approx(1e13, rel=0.05)
    assert crossing(one, other, 1e12, 5e12) is None


def test_a_crossing_lies_between_the_places_that_are_tried():
    """1 + 2 / x and 1 + 1 / sqrt(x) are equal at x = 4."""
    one, other = ComputeLaw(1.0, 2.0, 1.0, 1.0), ComputeLaw(1.0, 1.0, 0.5, 1.0)
    for low in (1.0, 1.1, 1.2):
        assert crossing(one, other, low, 1e4) == pytest.approx(4.0, rel=1e-3)


def noisy(law, away, seed, count=5):
    random = np.random.default_rng(seed)
    shared = np.random.default_rng(99 + seed).normal(0, 0.05, (count, 1))  # what a seed does to both arms
    return losses(*law) + shared + random.normal(0, away, (count, len(FLOPS)))


def test_the_interval_of_a_crossing_holds_it_about_as_often_as_it_says():
    held = 0
    for seed in range(20):
        pair = noisy((2.0, 1.0, 0.2), 0.004, 2 * seed), noisy((1.8, 1.2, 0.2), 0.004, 2 * seed + 1)
        found = crossed((FLOPS, FLOPS), pair, beyond=10, seed=seed)
        assert found.at is not None
        held += found.at.low <= 1e13 <= found.at.high
    assert held >= 17


def test_a_crossing_beyond_what_was_measured_is_an_extrapolation():
    few = FLOPS[:3]
    pair = losses(2.0, 1.0, 0.2, few)[None], losses(1.89, 1.17, 0.2, few)[None]
    found = crossed((few, few), pair, beyond=100)
    assert found.beyond
    assert found.at is not None
    assert found.at.value == pytest.approx(1e13 * (0.17 / 0.11) ** 5, rel=0.3)
    assert found.at.low == -math.inf  # of one seed
    assert not found.first or found.at.value > few[-1]
    none = crossed((few, few), (losses(2.0, 1.0, 0.2, few)[None], losses(2.2, 1.0, 0.2, few)[None]), beyond=100)
    assert none.at is None
    assert none.first


def test_draws_are_spread_as_means_of_seeds_are():
    """Of n seeds the mean has the variance s^2 / n, and Student's t of n - 1 degrees of freedom (n - 1) / (n - 3) times it."""
    random, n = np.random.default_rng(0), 12
    seeds = random.normal(3.0, 0.1, (n, 3)), random.normal(2.0, 0.02, (n, 2))
    for given, drawn in zip(seeds, _draws(seeds, 0), strict=True):
        wanted = given.var(0, ddof=1) / n * (n - 1) / (n - 3)
        assert drawn.var(0) == pytest.approx(wanted, rel=0.3)
        assert drawn.mean(0) == pytest.approx(given.mean(0), abs=0.01)
