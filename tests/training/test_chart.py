"""The loss curve: its points, its smoothing, its picture."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from anyformer.training.chart import curve, draw_losses, smooth

ROWS = [{"kind": "train", "tokens": 100 * i, "loss": 4 - i / 10} for i in range(1, 9)]
ROWS += [{"kind": "validation", "tokens": 400, "loss": 3.5}, {"kind": "validation", "tokens": 800, "loss": 3.3}]


def test_kinds_of_rows_are_kept_apart():
    assert curve(ROWS, "validation") == ([400, 800], [3.5, 3.3])
    assert len(curve(ROWS, "train")[1]) == 8


def test_smoothing_has_no_bias_at_its_start():
    assert smooth([2.0, 2.0, 2.0]) == pytest.approx([2.0, 2.0, 2.0])


@pytest.mark.parametrize("count", [1, 2, 13, 400])
def test_smoothing_lags_behind_nothing(count):
    """It lagged by a fiftieth of the run, and stood above losses that fall."""
    falling = [5 - i / 100 for i in range(count)]
    assert smooth(falling) == pytest.approx(falling)


def test_smoothing_stands_in_the_middle_of_noise():
    course = [2 + 4 / (1 + i / 40) for i in range(1000)]
    noisy = [value + (0.3 if i % 2 else -0.3) for i, value in enumerate(course)]
    gaps = [mean - value for mean, value in zip(smooth(noisy), course, strict=True)]
    assert max(map(abs, gaps[20:])) < 0.1
    assert abs(sum(gaps) / len(gaps)) < 0.005
    assert smooth([]) == []


@pytest.mark.parametrize(("count", "said"), [(1, "training"), (8, "training"), (1000, "training: centred mean of 21 losses")])
def test_every_loss_is_to_be_seen_and_the_smoothed_line_says_what_it_is(count, said, tmp_path, monkeypatch):
    from anyformer.training import chart

    kept = []
    drawing = chart.drawing

    @contextmanager
    def keeping(*size):
        with drawing(*size) as figure:
            yield figure
            kept.extend(figure.axes[0].lines)

    monkeypatch.setattr(chart, "drawing", keeping)
    rows = [{"kind": "train", "tokens": 100 * (i + 1), "loss": 4.0} for i in range(count)]
    draw_losses(rows, tmp_path / "loss.png", title="a run")
    assert [line.get_label() for line in kept][1] == said
    assert all((line.get_marker() != "None") == (count == 1 or count == 8) for line in kept[:2])


def test_a_run_is_drawn(tmp_path):
    draw_losses(ROWS, tmp_path / "loss.svg", title="my run: 1 layer", baseline=3.9)
    assert (tmp_path / "loss.svg").stat().st_size > 10_000
