"""The picture of lengths: what each arm reaches at the trained length and at others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.pictures.style import FAINT, band, through
from anyformer.studies.findings import Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lengths(figure: Figure, findings: Findings) -> None:
    """The mean over seeds of each arm at each length, and the band between the lowest and the highest."""
    trained = next(iter(findings.runs.values()))["length"]
    axes = figure.add_subplot(title=f"{findings.metric} by length", xlabel="length", ylabel=findings.metric, xscale="log")
    for number, arm in enumerate(findings.arms):
        numbers = {trained: arm.numbers, **{each.length: each.numbers[arm.name] for each in findings.lengths}}
        finite = {at: [one for one in found.values() if one is not None] for at, found in sorted(numbers.items())}
        points = [(at, sum(ones) / len(ones), min(ones), max(ones)) for at, ones in finite.items() if ones]
        if not points:
            continue
        at, means, low, high = zip(*points, strict=True)
        axes.plot(at, means, label=arm.name, **through(number, len(points)))
        band(axes, number, at, low, high)
    ticks = [trained, *(each.length for each in findings.lengths)]
    axes.axvline(trained, color=FAINT, linestyle=":")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid()
    axes.legend()
