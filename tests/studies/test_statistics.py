"""Intervals hold what they say with few seeds, no verdict comes too often, and known effects are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anyformer.studies.statistics import (
    FEWEST,
    compare,
    divergence_p_value,
    holm,
    interval,
    p_value,
    seeds_to_tell,
    t_cdf,
    t_quantile,
)

ALPHA = 0.05
FEW = (3, 5, 8)


@pytest.mark.parametrize(
    ("share", "freedom", "known"),
    # Tables of Student's distribution, Abramowitz & Stegun 26.10.
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4, 2.776), (0.975, 7, 2.365), (0.995, 3, 5.841), (0.9, 30, 1.310)],
)
def test_quantiles_of_student(share, freedom, known):
    assert t_quantile(share, freedom) == pytest.approx(known, abs=6e-4)
    assert t_quantile(1 - share, freedom) == pytest.approx(-known, abs=6e-4)


def test_the_distribution_of_student_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    for freedom in range(1, 40):
        for t in (-7.0, -1.3, 0.0, 0.4, 2.2, 30.0):
            assert t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-12)


def test_a_probability_by_hand_and_scipys():
    """Mean 7/3 and s = sqrt(7/3) of 1, 2, 4: t = 2.6458 with 2 degrees of freedom, and 1 - t / sqrt(2 + t^2) is beyond."""
    t = 7**0.5
    assert p_value([1, 2, 4]) == pytest.approx(1 - t / math.sqrt(2 + t**2), abs=1e-12) == pytest.approx(0.118083, abs=1e-6)
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    for n in (3, 4, 7, 20):
        values = random.normal(0.5, 1, n)
        assert p_value(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-12)


@pytest.mark.parametrize(("alpha", "t"), [(0.05, 4.30265), (0.1, 2.91999), (0.01, 9.92484)])
def test_the_interval_of_a_comparison_is_at_its_own_alpha(alpha, t):
    """t of a table, with 2 degrees of freedom; the differences are 1, 2, 4."""
    found = compare(dict.fromkeys(range(3), 1.0), {"a": {0: 2.0, 1: 3.0, 2: 5.0}}, alpha=alpha)["a"].interval
    reach = t * math.sqrt(7 / 3) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((7 / 3 - reach, 7 / 3 + reach), abs=1e-4)


def percentiles(values, random):
    """The 95 % interval of a percentile bootstrap."""
    drawn = values[random.integers(len(values), size=(400, len(values)))].mean(1)
    return np.quantile(drawn, [0.025, 0.975])


def normal(random, size):
    return random.normal(0, 1, size)


def heavy(random, size):
    """Symmetric with heavy tails, variance 1."""
    return random.standard_t(4, size) / math.sqrt(2)


def skewed(random, size):
    """The difference of an arm with a long tail and one without, mean 0."""
    return random.exponential(1.0, size) - 1 + random.normal(0, 1, size)


@pytest.mark.parametrize("n", FEW)
@pytest.mark.parametrize(("draw", "least"), [(normal, 0.94), (heavy, 0.94), (skewed, 0.92)])
def test_intervals_hold_the_truth_as_often_as_they_say(draw, least, n):
    random = np.random.default_rng(n)
    held = [found.low <= 0 <= found.high for found in (interval(draw(random, n)) for _ in range(4000))]
    assert least <= np.mean(held) <= 0.985


@pytest.mark.parametrize(("n", "most"), [(3, 0.82), (5, 0.88), (8, 0.92)])
def test_a_percentile_bootstrap_would_not(n, most):
    """Why it is not used."""
    random = np.random.default_rng(n)
    ends = [percentiles(random.normal(0, 1, n), random) for _ in range(1500)]
    assert np.mean([low <= 0 <= high for low, high in ends]) < most


def studies(random, *, arms, seeds, effect=0.0, number=200):
    """Simulated studies: losses have a part that a seed gives to all arms, and one of their own."""
    for _ in range(number):
        shared = random.normal(3, 0.05, seeds)
        losses = {f"arm_{i}": shared + random.normal(effect * (i == 0), 0.01, seeds) for i in range(arms)}
        base = shared + random.normal(0, 0.01, seeds)
        yield compare(dict(enumerate(base)), {name: dict(enumerate(found)) for name, found in losses.items()}, alpha=ALPHA)


@pytest.mark.parametrize("arms", [1, 4])
@pytest.mark.parametrize("seeds", FEW)
def test_equal_arms_are_told_apart_no_more_often_than_stated(arms, seeds):
    """Of 200 studies without a difference at most so many have a verdict as luck allows at the stated rate (99.9 %)."""
    random = np.random.default_rng(100 * arms + seeds)
    told = sum(any(one.verdict != "cannot tell" for one in study.values()) for study in studies(random, arms=arms, seeds=seeds))
    allowed = 200 * ALPHA + 3.1 * math.sqrt(200 * ALPHA * (1 - ALPHA))
    assert told <= allowed
    if arms == 1:
        assert told >= 1  # an interval that never tells anything would pass too


def test_without_a_correction_four_equal_arms_would_be_told_apart_too_often():
    random = np.random.default_rng(404)
    told = sum(any(one.p <= ALPHA for one in study.values()) for study in studies(random, arms=4, seeds=5))
    assert told > 200 * ALPHA + 3.1 * math.sqrt(200 * ALPHA * (1 - ALPHA))


def test_a_known_effect_is_found_with_the_power_stated():
    """Power for the effect, by simulation, where the advised number of seeds promises 80 %."""
    spread = 0.01 * math.sqrt(2)
    effect = 1.5 * spread
    exact = np.array([effect - spread, effect + spread] * 50) * 1.0
    exact = effect + (exact - exact.mean()) * spread / exact.std(ddof=1)
    needed = seeds_to_tell(exact)
    assert needed in range(4, 8)
    random = np.random.default_rng(7)
    found = [study["arm_0"].verdict for study in studies(random, arms=1, seeds=needed, effect=effect, number=1000)]
    assert found.count("worse") / 1000 > 0.77
    assert found.count("better") == 0


def test_pairs_see_what_groups_would_not():
    """What a seed gives both arms cancels."""
    seeds = {1: 3.00, 2: 3.20, 3: 2.90, 4: 3.10, 5: 2.80}
    better = {seed: loss - 0.01 - 0.001 * (seed % 2) for seed, loss in seeds.items()}
    assert compare(seeds, {"a": better})["a"].verdict == "better"
    assert compare(seeds, {"a": better}, lower=False)["a"].verdict == "worse"


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_few_seeds_have_no_verdict(count):
    base = dict.fromkeys(range(count), 3.0)
    arm = {seed: 1.0 + 0.01 * seed for seed in range(count)}
    found = compare(base, {"a": arm})["a"]
    assert found.verdict == "cannot tell"
    assert "3 at least" in found.why


def test_the_same_numbers_differ_in_nothing():
    found = compare({1: 3.0, 2: 3.1, 3: 3.2}, {"a": {1: 3.0, 2: 3.1, 3: 3.2}})["a"]
    assert (found.verdict, found.p, found.needed) == ("cannot tell", 1.0, None)
    assert p_value([0.5, 0.5, 0.5]) == 0.25


def test_holm():
    """The example of Holm's procedure with four probabilities, by hand."""
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == {"a": pytest.approx(0.03), "b": pytest.approx(0.06), "c": pytest.approx(0.06), "d": pytest.approx(0.02)}


def test_an_arm_that_always_diverges_is_worse():
    base = dict.fromkeys(range(3), 3.0)
    found = compare(base, {"a": dict.fromkeys(range(3), math.inf), "b": {0: 3.0, 1: 3.1, 2: math.inf}})
    assert found["a"].p == pytest.approx(1 / 32, rel=1e-3)
    assert compare(base, {"a": dict.fromkeys(range(3), math.inf)})["a"].verdict == "worse"
    assert compare(dict.fromkeys(range(3), math.inf), {"a": base})["a"].verdict == "better"
    assert found["b"].verdict == "cannot tell"
    assert "diverged with 1" in found["b"].why


@pytest.mark.parametrize("count", [3, 5, 8])
def test_how_often_equal_arms_differ_in_divergence(count):
    """For every rate, the probability of a p of at most alpha is at most alpha."""
    for rate in np.linspace(0.05, 0.95, 19):
        chances = [math.comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(count + 1)]
        wrong = sum(
            chances[i] * chances[j]
            for i in range(count + 1)
            for j in range(count + 1)
            if divergence_p_value(i, j, count) <= ALPHA
        )
        assert wrong <= ALPHA


def test_more_seeds_are_advised_for_smaller_differences():
    random = np.random.default_rng(0)
    noise = random.normal(0, 1, 6)
    noise -= noise.mean()
    numbers = [seeds_to_tell(noise + effect) for effect in (3.0, 1.0, 0.3, 0.01)]
    assert numbers[:3] == sorted(n for n in numbers if n is not None)
    assert numbers[3] is None


@pytest.mark.parametrize(("share", "needed"), [(1.0, 10), (2.0, 5)])
def test_seeds_advised_are_those_of_a_table(share, needed):
    """(2.262 + 0.883) / sqrt(10) <= 1 < (2.306 + 0.889) / sqrt(9), and (2.776 + 0.941) / sqrt(5) <= 2 < (3.182 + 0.978) / 2."""
    assert seeds_to_tell([share - 1, share, share + 1]) == needed


def test_more_seeds_are_advised_where_several_arms_are_compared():
    """At alpha / m, the strictest step of Holm's correction: (2.560 + 0.873) / sqrt(13) <= 1 < (2.593 + 0.876) / sqrt(12)."""
    base, arm = dict.fromkeys(range(3), 3.0), {0: 3.0, 1: 4.0, 2: 5.0}
    one, two = (compare(base, dict.fromkeys(names, arm))["a"].needed for names in ("a", "ab"))
    assert (one, two) == (10, 13)
