"""Latencies of a service and its goodput against the rate at which requests come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyformer.pictures.style import FAINT, INK, band, below, drawing, line_of


@dataclass(frozen=True)
class LoadCurves:
    """At every one of `rates` (requests a second): by title, (median, 95th, 99th percentile) in seconds; requests a second that
    are answered, and that keep the limits. `given`: the rate that was asked for; `limits`: seconds by title."""

    title: str
    rates: Sequence[float]
    latencies: Mapping[str, Sequence[tuple[float, float, float]]]
    answered: Sequence[float]
    kept: Sequence[float] | None
    given: float
    limits: Mapping[str, float]


def draw_load(path: Path, curves: LoadCurves) -> None:
    """One panel per latency, on a logarithmic axis with a band up to the 99th percentile, and one of what is answered."""
    with drawing(path, 3.2 * (len(curves.latencies) + 1), 3.4) as figure:
        *panels, last = figure.subplots(1, len(curves.latencies) + 1)
        for i, (axes, (title, found)) in enumerate(zip(panels, curves.latencies.items(), strict=True)):
            median, late, latest = zip(*found, strict=True)
            band(axes, i, curves.rates, median, latest)
            axes.plot(curves.rates, median, label="half within", **line_of(i))
            axes.plot(curves.rates, late, label="95% within", **line_of(i) | {"linestyle": ":"})
            if title in curves.limits:
                axes.axhline(curves.limits[title], color=INK, linewidth=1, label="limit")
            axes.set_yscale("log")
            axes.set_title(title)
            axes.set_ylabel("seconds")
        last.plot(curves.rates, curves.answered, label="answered", **line_of(3))
        if curves.kept is not None:
            last.plot(curves.rates, curves.kept, label="within the limits", **line_of(4))
        last.set_title("requests per second")
        last.set_ylim(bottom=0)
        for axes in (*panels, last):
            axes.axvline(curves.given, color=FAINT, linewidth=1)
            axes.set_xlabel("requests that come per second")
            axes.grid()
            below(axes)
        figure.suptitle(curves.title, x=0.01, ha="left", fontsize=10)
