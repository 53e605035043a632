"""Intervals hold what they say they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from anyformer.evaluation import Interval, PairedDifference, paired, share


@pytest.mark.parametrize(("right", "count"), [(8, 10), (0, 7), (7, 7), (1, 1000), (412, 1000)])
def test_a_share_has_wilsons_interval(right, count):
    found = share(right, count)
    expected = binomtest(right, count).proportion_ci(method="wilson")
    assert (found.value, found.low, found.high) == pytest.approx((right / count, expected.low, expected.high), abs=1e-12)


def test_a_share_of_nothing_may_be_anything():
    found = share(0, 0)
    assert (math.isnan(found.value), found.low, found.high) == (True, 0.0, 1.0)


def test_the_difference_is_that_of_the_means_over_targets():
    found = paired([3.0, 10.0], [1.0, 4.0], [1, 3], unit="rows")
    assert found.interval.value == pytest.approx((13 - 5) / 4)
    assert (found.units, found.unit) == (2, "rows")
    counts = np.arange(1.0, 30.0)
    even = paired(2 * counts, counts, counts, unit="rows").interval
    assert (even.low, even.value, even.high) == pytest.approx((1, 1, 1)), "each resample is divided by its own targets"


def test_intervals_of_pairs_cover_the_truth_and_narrow_what_is_alike():
    """400 samples of rows of different sizes and hardness: the truth is in the interval in about 95 of 100."""
    random = np.random.default_rng(0)
    truth, inside, widths, apart = -0.05, 0, [], []
    for number in range(400):
        counts = random.integers(5, 60, size=60)
        hard = random.normal(3.0, 0.8, size=60)
        first = counts * (hard + truth + random.normal(0, 0.2, size=60))
        second = counts * hard
        found = paired(first, second, counts, unit="rows", seed=number)
        inside += found.interval.low <= truth <= found.interval.high
        widths.append(found.interval.high - found.interval.low)
        apart.append(paired(first, random.permutation(second), counts, unit="rows", seed=number))
    assert 0.91 <= inside / 400 <= 0.98
    assert np.mean([each.interval.high - each.interval.low for each in apart]) > 4 * np.mean(widths)


def test_equal_models_are_seldom_told_apart():
    random = np.random.default_rng(1)
    verdicts = []
    for _ in range(200):
        first, second = random.normal(3.0, 0.5, size=(2, 80))
        verdicts.append(paired(first, second, np.ones(80), unit="rows").verdict)
    assert verdicts.count("cannot tell") >= 180


def test_the_same_seed_gives_the_same_interval():
    random = np.random.default_rng(1)
    first, second, counts = random.normal(size=50), random.normal(size=50), random.integers(1, 9, size=50)
    assert paired(first, second, counts, unit="rows") == paired(first, second, counts, unit="rows")
    assert paired(first, second, counts, unit="rows") != paired(first, second, counts, unit="rows", seed=1)
    # Units without a target change nothing.
    more = [np.append(each, value) for each, value in ((first, 0.0), (second, 0.0), (counts, 0))]
    assert paired(*more, unit="rows") == paired(first, second, counts, unit="rows")


@pytest.mark.parametrize(
    ("interval", "units", "lower", "verdict"),
    [
        (Interval(-0.2, -0.3, -0.1), 50, True, "better"),
        (Interval(-0.2, -0.3, -0.1), 50, False, "worse"),
        (Interval(0.2, 0.1, 0.3), 50, True, "worse"),
        (Interval(0.2, -0.1, 0.3), 50, True, "cannot tell"),
        (Interval(0.2, 0.1, 0.3), 4, True, "cannot tell"),
        (Interval(0.0, 0.0, 0.0), 50, True, "cannot tell"),
    ],
)
def test_verdicts(interval, units, lower, verdict):
    assert PairedDifference(interval, units, "rows", lower).verdict == verdict
