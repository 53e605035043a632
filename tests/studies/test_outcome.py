"""What a study reads of a trial: its spikes and the curve of its training losses, by hand."""

from __future__ import annotations

import pytest

from anyformer.studies.outcome import POINTS, _means, spikes
from anyformer.training.instability import ReportSpikes

FIRST = ReportSpikes().window // 4
"""Losses before the first that may be a spike."""


def test_a_spike_is_far_above_the_losses_before_it():
    """Of equal losses a deviation is 0.01 of the median, and a spike more than 8 of them above: 1.08."""
    assert spikes([1.0] * FIRST + [1.1]) == 1
    assert spikes([1.0] * FIRST + [1.07]) == 0
    assert spikes([1.0] * (FIRST - 1) + [1.1]) == 0, "one too few before it: it is none of its own"
    assert spikes([1.0] * FIRST + [1.1, 1.0, 1.1]) == 2


def test_what_came_long_before_does_not_count():
    window = ReportSpikes().window
    assert spikes([9.0] * window + [1.0] * window + [1.1]) == 1
    assert spikes([9.0] * window + [1.0] * (window // 4) + [1.1]) == 0


def test_a_curve_has_means_at_the_last_of_their_updates():
    """201 losses leave at most 100 points, so each is of three, the last ones of what is left."""
    updates = [{"tokens": 32 * n, "loss": float(n)} for n in range(1, 2 * POINTS + 3)]
    found = _means(updates)
    assert found[:2] == [(3 * 32, 2.0), (6 * 32, 5.0)]
    assert found[-1] == (202 * 32, pytest.approx(202.0))
    assert len(found) == 68
