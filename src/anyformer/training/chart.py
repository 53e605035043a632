"""The loss curve as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw_losses(rows: list[dict[str, Any]], path: Path, *, title: str, baseline: float | None = None) -> None:
    """Training loss (each step, and smoothed), validation loss, and the baseline, against tokens seen."""
    from matplotlib.figure import Figure

    steps = [row for row in rows if row["kind"] == "train"]
    looks = [row for row in rows if row["kind"] == "validation"]
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    seen = [row["tokens"] for row in steps]
    losses = [row["loss"] for row in steps]
    axes.plot(seen, losses, color="tab:blue", alpha=0.25, linewidth=1)
    axes.plot(seen, smooth(losses), color="tab:blue", linewidth=1.8, label="training (smoothed)")
    axes.plot(
        [r["tokens"] for r in looks], [r["loss"] for r in looks], "o-", color="tab:orange", markersize=4, label="validation"
    )
    if baseline is not None:
        axes.axhline(baseline, color="grey", linestyle="--", linewidth=1, label=f"interpolated bigram, {baseline:.3f}")
    axes.set_xlabel("tokens seen")
    axes.set_ylabel("loss, nats per token")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k")
    axes.legend()
    figure.savefig(path)


def smooth(values: list[float], share: float = 0.95) -> list[float]:
    """Exponential moving average without the bias of its start."""
    mean, weight, result = 0.0, 0.0, []
    for value in values:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        result.append(mean / weight)
    return result
