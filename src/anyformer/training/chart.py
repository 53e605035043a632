"""The loss curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anyformer.pictures.style import FAINT, FEW, PALETTE, can_draw, drawing

Rows = Sequence[Mapping[str, Any]]
"""A run's metrics, as `metrics.jsonl` holds them."""
AVERAGED = 50
"""The average reaches over one part in so many of the run."""


def draw_losses(rows: Rows, path: Path, *, title: str, baseline: float | None = None) -> None:
    """Training loss (each step, and smoothed), validation loss, and the baseline, against tokens seen; nothing without
    matplotlib, for which no run fails."""
    if not can_draw():
        return
    from matplotlib.ticker import EngFormatter

    with drawing(path, 7.5, 4.2) as figure:
        axes = figure.add_subplot(title=title, xlabel="tokens seen", ylabel="loss (nats per token)")
        seen, losses = curve(rows, "train")
        own, reach = len(losses) <= FEW, reach_of(len(losses))
        axes.plot(seen, losses, "o" * own, color=PALETTE[0], alpha=0.22, linewidth=0.9, markersize=4)
        said = f"training: centred mean of {2 * reach + 1} losses" if reach else "training"
        axes.plot(seen, smooth(losses), "o-" * own, color=PALETTE[0], linewidth=1.8, markersize=4, label=said)
        axes.plot(*curve(rows, "validation"), "o--", color=PALETTE[1], markersize=4, linewidth=1.4, label="validation")
        if baseline is not None:
            axes.axhline(baseline, color=FAINT, linestyle=":", linewidth=1.4, label=f"interpolated bigram: {baseline:.3f}")
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.set_xlim(0, None)
        axes.grid()
        axes.legend()


def curve(rows: Rows, kind: str) -> tuple[list[int], list[float]]:
    """Tokens seen and loss, of training steps (`train`) or of evaluations (`validation`)."""
    rows = [row for row in rows if row["kind"] == kind]
    return [row["tokens"] for row in rows], [row["loss"] for row in rows]


def reach_of(count: int) -> int:
    """Losses on each side of one over which it is averaged; none in a run of few."""
    return 0 if count <= FEW else max(1, count // (2 * AVERAGED))


def smooth(values: Sequence[float]) -> list[float]:
    """At each loss the straight line through its neighbours on both sides: their mean, and towards the ends, where there are
    fewer on one side, the line's value there. It lags behind nothing: a straight course comes out as it is."""
    if not values:
        return []
    y, reach, count = np.asarray(values, dtype=np.float64), reach_of(len(values)), len(values)
    place = np.arange(count)
    first, end = np.maximum(place - reach, 0), np.minimum(place + reach + 1, count)
    n, middle = end - first, (first + end - 1) / 2
    sums, moments = (np.concatenate([[0.0], np.cumsum(each)]) for each in (y, y * place))
    mean = (sums[end] - sums[first]) / n
    slope = (moments[end] - moments[first] - n * middle * mean) / (np.maximum(n * (n * n - 1), 6) / 12)
    smoothed: list[float] = (mean + slope * (place - middle)).tolist()
    return smoothed
