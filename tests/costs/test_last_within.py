"""The search for the largest number within a limit, against a walk over all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.costs.last_within import last_within


@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.integers(0, 5000), st.integers(0, 100))
def test_it_is_what_a_walk_finds(steps, limit, start):
    values = [start + sum(steps[: n + 1]) for n in range(len(steps))]
    walked = sum(value <= limit for value in values)
    assert last_within(limit, lambda n: values[n - 1], len(values) + 1) == walked


@pytest.mark.parametrize("limit", [99, 100, 131, 10**6])
def test_even_growth_takes_six_values(limit):
    asked = []

    def at(n):
        asked.append(n)
        return 69 + 31 * n

    assert last_within(limit, at, 1 << 16) == max(0, (limit - 69) // 31)
    assert len(asked) <= 6


def test_growth_that_begins_late_takes_few_values():
    """Memory at the update does not depend on the batch; activations make the peak from some batch on."""
    asked = []

    def at(n):
        asked.append(n)
        return max(1000, 17 * n + 300)

    assert last_within(5000, at, 1 << 16) == 276
    assert len(asked) < 20
