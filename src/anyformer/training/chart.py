"""The loss curve as a picture, of one run or of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.pictures.style import FAINT, PALETTE, drawing, line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[Mapping[str, Any]]
"""A run's metrics, as `metrics.jsonl` holds them."""
AVERAGED = 50
"""How many averages fit into a run: a longer one would lag behind the losses for the eye to see."""


def draw_losses(rows: Rows, path: Path, *, title: str, baseline: float | None = None) -> None:
    """Training loss (each step, and smoothed), validation loss, and the baseline, against tokens seen."""
    with _panel(path, title) as axes:
        seen, losses = curve(rows, "train")
        axes.plot(seen, losses, color=PALETTE[0], alpha=0.22, linewidth=0.9)
        axes.plot(seen, smooth(losses), color=PALETTE[0], linewidth=1.8, label="training (smoothed)")
        axes.plot(*curve(rows, "validation"), "o--", color=PALETTE[1], markersize=4, linewidth=1.4, label="validation")
        if baseline is not None:
            axes.axhline(baseline, color=FAINT, linestyle=":", linewidth=1.4, label=f"interpolated bigram: {baseline:.3f}")


def draw_runs(runs: Mapping[str, Rows], path: Path, *, title: str) -> None:
    """The smoothed training loss of several runs as lines, and their validation losses as dots, against tokens seen."""
    with _panel(path, title) as axes:
        for i, (name, rows) in enumerate(runs.items()):
            look = line_of(i)
            seen, losses = curve(rows, "train")
            axes.plot(seen, smooth(losses), **look, label=name)
            axes.plot(*curve(rows, "validation"), "o", color=look["color"], markersize=4, markeredgecolor="white")


def curve(rows: Rows, kind: str) -> tuple[list[int], list[float]]:
    """Tokens seen and loss, of training steps (`train`) or of evaluations (`validation`)."""
    chosen = [row for row in rows if row["kind"] == kind]
    return [row["tokens"] for row in chosen], [row["loss"] for row in chosen]


def smooth(values: Sequence[float]) -> list[float]:
    """Exponential moving average over about a fiftieth of the run, without the bias of its start."""
    share = 1 - 1 / max(2.0, len(values) / AVERAGED)
    mean, weight, result = 0.0, 0.0, []
    for value in values:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        result.append(mean / weight)
    return result


def counted(tokens: float) -> str:
    """Tokens seen: `0`, `250 k`, `1.5 M`, `2 G`."""
    for unit, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if tokens >= unit:
            return f"{tokens / unit:g}{sign}"
    return f"{tokens:g}"


@contextmanager
def _panel(path: Path, title: str) -> Iterator[Axes]:
    """Loss against tokens, titled, with a legend of what was drawn."""
    with drawing(path, 7.5, 4.2) as figure:
        axes = figure.add_subplot()
        yield axes
        axes.set_title(title)
        axes.set_xlabel("tokens seen")
        axes.set_ylabel("loss (nats per token)")
        axes.xaxis.set_major_formatter(lambda value, _: counted(value))
        axes.set_xlim(0, None)
        axes.grid()
        axes.legend()
