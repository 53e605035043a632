"""Schedules: where they start, peak and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.training import Constant, Cosine, Linear, WarmupStableDecay

EACH = [Cosine, Linear, WarmupStableDecay, Constant]


@pytest.mark.parametrize("kind", EACH)
def test_it_rises_to_one_and_ends_at_its_floor(kind):
    schedule = kind(warmup=10, floor=0.1)
    factors = [schedule.factor(step, 101) for step in range(101)]
    assert factors[0] == pytest.approx(1 / 11)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10] == pytest.approx(1)
    assert factors[-1] == pytest.approx(1.0 if kind is Constant else 0.1, abs=1e-6)
    assert factors[10:] == sorted(factors[10:], reverse=True)


def test_stable_stays_stable():
    schedule = WarmupStableDecay(warmup=0, decay=0.25, floor=0.0)
    assert [schedule.factor(step, 100) for step in range(75)] == [1.0] * 75
    assert schedule.factor(90, 100) == pytest.approx(1 - (90 / 99 - 0.75) / 0.25)


@given(st.sampled_from(EACH), st.integers(0, 50), st.floats(0, 1), st.integers(1, 200))
def test_factors_stay_between_zero_and_one(kind, warmup, floor, steps):
    schedule = kind(warmup=warmup, floor=floor)
    assert all(0 <= schedule.factor(step, steps) <= 1 for step in range(steps))
