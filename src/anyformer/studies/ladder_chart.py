"""The picture of a ladder: losses against FLOPs with the law of each arm, dotted where nothing was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anyformer.pictures.style import FAINT, MARKERS, line_of
from anyformer.studies.ladders import Climb

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ladder(figure: Figure, climb: Climb) -> None:
    """A dot for each seed, the law through the means, dotted beyond the largest FLOPs; a line at a crossing."""
    from matplotlib.ticker import EngFormatter

    axes = figure.add_subplot(title="loss = E + A / C^a", xlabel="C, FLOPs of training", ylabel="held-out loss", xscale="log")
    for number, arm in enumerate(climb.arms):
        colour = line_of(number)["color"]
        for rung in arm.rungs:
            axes.plot(
                [rung.flops] * len(rung.numbers), list(rung.numbers.values()), MARKERS[number % len(MARKERS)],
                color=colour, alpha=0.5, markersize=4,
            )  # fmt: skip
        axes.plot([], [], MARKERS[number % len(MARKERS)], color=colour, label=arm.name)
        if arm.law is None:
            continue
        measured = np.geomspace(arm.rungs[0].flops, arm.rungs[-1].flops, 100)
        further = np.geomspace(arm.rungs[-1].flops, climb.beyond * climb.largest, 100)
        axes.plot(measured, arm.law.at(measured), "-", color=colour, linewidth=1.6)
        axes.plot(further, arm.law.at(further), ":", color=colour, linewidth=1.4)
        if arm.crossing is not None and arm.crossing.at is not None:
            axes.axvline(arm.crossing.at.value, color=colour, linewidth=0.8, linestyle="--")
    axes.axvspan(climb.largest, climb.beyond * climb.largest, color=FAINT, alpha=0.12, linewidth=0)
    axes.annotate(
        "extrapolated", (climb.largest, 0.02), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points",
        color=FAINT,
    )  # fmt: skip
    axes.set_xlim(right=climb.beyond * climb.largest)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.grid()
    axes.legend()
