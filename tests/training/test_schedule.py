"""Schedules: where they start, peak and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.training import ConstantSchedule, Cosine, InverseSquareRoot, Linear, WarmupStableDecay

EACH = [Cosine, Linear, WarmupStableDecay, ConstantSchedule]


@pytest.mark.parametrize("kind", EACH)
def test_it_rises_to_one_and_ends_at_its_floor(kind):
    schedule = kind(warmup=10, floor=0.1)
    factors = [schedule.factor(step, 101) for step in range(101)]
    assert factors[0] == pytest.approx(1 / 11)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10] == pytest.approx(1)
    assert factors[-1] == pytest.approx(1.0 if kind is ConstantSchedule else 0.1, abs=1e-6)
    assert factors[10:] == sorted(factors[10:], reverse=True)


@pytest.mark.parametrize("kind", [*EACH, InverseSquareRoot])
def test_in_a_short_run_the_rise_takes_half_of_the_steps(kind):
    factors = [kind(warmup=100).factor(step, 9) for step in range(9)]
    assert factors[:5] == pytest.approx([1 / 5, 2 / 5, 3 / 5, 4 / 5, 1])


def test_stable_stays_stable():
    schedule = WarmupStableDecay(warmup=0, decay=0.25, floor=0.0)
    assert [schedule.factor(step, 100) for step in range(75)] == [1.0] * 75
    assert schedule.factor(90, 100) == pytest.approx(1 - (90 / 99 - 0.75) / 0.25)


def test_the_inverse_square_root_is_that_of_the_papers():
    """Vaswani et al., equation 3, over its largest value; and T5's 1 / sqrt(max(n, k)) over 1 / sqrt(k)."""
    own, k = InverseSquareRoot(warmup=9), 10
    paper = [min(t**-0.5, t * k**-1.5) / k**-0.5 for t in range(1, 200)]
    assert [own.factor(step, 200) for step in range(199)] == pytest.approx(paper)
    t5 = InverseSquareRoot(warmup=0, flat=50)
    assert [t5.factor(step, 200) for step in range(199)] == pytest.approx([(50 / max(t, 50)) ** 0.5 for t in range(1, 200)])
    assert [InverseSquareRoot(warmup=3, flat=4).factor(step, 8) for step in range(3, 8)] == pytest.approx(
        [1] * 4 + [(7 / 8) ** 0.5]
    )
    assert InverseSquareRoot(warmup=0, floor=0.2).factor(10**6, 10**7) == 0.2
    assert own.factor(150, 151) == own.factor(150, 10**6), "it does not know how long the run is"


@given(st.sampled_from([*EACH, InverseSquareRoot]), st.integers(0, 50), st.floats(0, 1), st.integers(1, 200))
def test_factors_stay_between_zero_and_one(kind, warmup, floor, steps):
    schedule = kind(warmup=warmup, floor=floor)
    assert all(0 <= schedule.factor(step, steps) <= 1 for step in range(steps))
