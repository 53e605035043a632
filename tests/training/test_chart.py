"""The loss curve: its points, its smoothing, its picture."""

from __future__ import annotations

import pytest

from anyformer.training.chart import curve, draw_losses, smooth

ROWS = [{"kind": "train", "tokens": 100 * i, "loss": 4 - i / 10} for i in range(1, 9)]
ROWS += [{"kind": "validation", "tokens": 400, "loss": 3.5}, {"kind": "validation", "tokens": 800, "loss": 3.3}]


def test_kinds_of_rows_are_kept_apart():
    assert curve(ROWS, "validation") == ([400, 800], [3.5, 3.3])
    assert len(curve(ROWS, "train")[1]) == 8


def test_smoothing_has_no_bias_at_its_start():
    assert smooth([2.0, 2.0, 2.0]) == pytest.approx([2.0, 2.0, 2.0])


def test_smoothing_lags_by_little():
    """It lagged by twenty steps, in a short run far behind the losses."""
    falling = [5 - i / 100 for i in range(400)]
    assert max(mean - value for mean, value in zip(smooth(falling), falling, strict=True)) < 0.02 * (5 - 1)


def test_a_run_is_drawn(tmp_path):
    draw_losses(ROWS, tmp_path / "loss.svg", title="my run: 1 layer", baseline=3.9)
    assert (tmp_path / "loss.svg").stat().st_size > 10_000
