"""The loss curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anyformer.pictures.style import FAINT, PALETTE, drawing

Rows = Sequence[Mapping[str, Any]]
"""A run's metrics, as `metrics.jsonl` holds them."""
AVERAGED = 50
"""The average reaches over one part in so many of the run: a longer one would visibly lag behind the losses."""


def draw_losses(rows: Rows, path: Path, *, title: str, baseline: float | None = None) -> None:
    """Training loss (each step, and smoothed), validation loss, and the baseline, against tokens seen."""
    from matplotlib.ticker import EngFormatter

    with drawing(path, 7.5, 4.2) as figure:
        axes = figure.add_subplot(title=title, xlabel="tokens seen", ylabel="loss (nats per token)")
        seen, losses = curve(rows, "train")
        axes.plot(seen, losses, color=PALETTE[0], alpha=0.22, linewidth=0.9)
        axes.plot(seen, smooth(losses), color=PALETTE[0], linewidth=1.8, label="training (smoothed)")
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


def smooth(values: Sequence[float]) -> list[float]:
    """Exponential moving average over about a fiftieth of the run, without the bias of its start."""
    share = 1 - 1 / max(2.0, len(values) / AVERAGED)
    mean, weight, result = 0.0, 0.0, []
    for value in values:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        result.append(mean / weight)
    return result
