"""The pictures of a study: differences with intervals, curves with bands, quality against each cost, sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyformer.evaluation.intervals import Interval
from anyformer.pictures.labels import Point, label
from anyformer.pictures.style import FAINT, INK, MARKERS, band, drawing, line_of, through
from anyformer.studies.findings import ArmFindings, Costs, Findings, mean_curve
from anyformer.studies.ladders import Climb

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COSTS: Mapping[str, Callable[[Costs], float | None]] = {
    "parameters": lambda costs: costs.parameters,
    "parameters that a token uses": lambda costs: costs.active,
    "training FLOPs": lambda costs: costs.flops,
    "seconds per million tokens": lambda costs: 1e6 / costs.tokens_per_second if costs.tokens_per_second else None,
    "bytes of tensors": lambda costs: costs.memory,
    "decode state, bytes per token": lambda costs: costs.state_bytes_per_token,
}
"""Costs of an arm, of all of which less is better."""
ALIKE = 0.005
"""Costs this close to one another are the same: no picture is needed of them."""

STEPS = 24
"""Points that stand for a stroke when names are placed."""


def pictures(findings: Findings) -> dict[str, tuple[str, Callable[[Figure], None], tuple[float, float]]]:
    """For each picture that there is something for: what it shows in words, how it is drawn, and inches."""
    found: dict[str, tuple[str, Callable[[Figure], None], tuple[float, float]]] = {}
    height = 1.3 + 0.42 * len(findings.comparisons)
    if any(each.interval is not None for each in findings.comparisons):
        said = f"Difference of every arm from {findings.base} in {findings.metric}, with its interval and all pairs of seeds"
        found["differences"] = said, lambda figure: differences(figure, findings), (7.5, height)
    if any(mean_curve(arm.curves) for arm in findings.arms):
        said = "Held-out loss against tokens: the mean over seeds, and the band between the lowest and the highest"
        found["curves"] = said, lambda figure: curves(figure, findings), (7.5, 4.2)
    costs = dearer(findings)
    if costs:
        said = f"{findings.metric} against every cost in which arms differ; arms on the line are beaten by none in both"
        found["pareto"] = said, lambda figure: pareto(figure, findings), (3.75 * min(2, len(costs)), 3.2 * -(-len(costs) // 2))
    if any(arm.tuned is not None for arm in findings.arms):
        said = f"{findings.metric} of every arm at every value of {findings.tuned_path}"
        found["sensitivity"] = said, lambda figure: sensitivity(figure, findings), (7.5, 3.8)
    if findings.lengths:
        said = f"{findings.metric} by length: means over seeds, bands between the lowest and the highest; dotted where trained"
        found["lengths"] = said, lambda figure: lengths(figure, findings), (7.5, 4.2)
    if findings.climb is not None:
        climb = findings.climb
        said = "Loss against FLOPs of training at every size, with the laws of the arms; dotted where nothing was measured"
        found["ladder"] = said, lambda figure: ladder(figure, climb), (7.5, 4.4)
    return found


def draw(findings: Findings, directory: Path, ending: str = ".svg") -> dict[str, str]:
    """Write the pictures; what the files show."""
    written = {}
    for name, (said, drawn, (width, height)) in pictures(findings).items():
        with drawing(directory / f"{name}{ending}", width, height) as figure:
            drawn(figure)
        written[f"{name}{ending}"] = said
    return written


def differences(figure: Figure, findings: Findings) -> None:
    """A line per arm: the mean difference, its interval, and a dot per pair."""
    axes = figure.add_subplot(title=f"{findings.metric}, arm minus {findings.base}: {findings.better} is better")
    shown = [each for each in findings.comparisons if each.interval is not None]
    for row, each in enumerate(reversed(shown)):
        between = each.interval
        assert between is not None
        style = line_of(_number(findings, each.name))
        axes.plot(each.differences, [row] * len(each.differences), "o", color=style["color"], alpha=0.35, markersize=4)
        axes.errorbar(
            between.value, row, xerr=[[between.value - between.low], [between.high - between.value]],
            fmt="D", color=style["color"], capsize=4, markersize=6, linewidth=1.8,
        )  # fmt: skip
        axes.annotate(each.verdict, (1.0, row), xycoords=("axes fraction", "data"), va="center", ha="right", color=INK)
    axes.axvline(0, color=FAINT, linestyle=":")
    axes.set_yticks(range(len(shown)), [each.name for each in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.margins(x=0.25)


def curves(figure: Figure, findings: Findings) -> None:
    """The mean held-out loss of each arm, with the band between its seeds."""
    from matplotlib.ticker import EngFormatter

    axes = figure.add_subplot(title="held-out loss", xlabel="tokens of training", ylabel="loss")
    for number, arm in enumerate(findings.arms):
        points = mean_curve(arm.curves)
        if not points:
            continue
        tokens, means, low, high = zip(*points, strict=True)
        axes.plot(tokens, means, label=arm.name, **through(number, len(points)))
        band(axes, number, tokens, low, high)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.grid()
    axes.legend()


def dearer(findings: Findings) -> list[str]:
    """Costs in which arms differ."""
    found = []
    for name, of in COSTS.items():
        values = [value for arm in findings.arms if arm.quality is not None and (value := of(arm.costs)) is not None]
        if len(values) > 1 and max(values) - min(values) > ALIKE * max(values):
            found.append(name)
    return found


def pareto(figure: Figure, findings: Findings) -> None:
    """A panel per cost in which arms differ, with the line of those that no other beats in both."""
    from matplotlib.ticker import EngFormatter

    shown = dearer(findings)
    panels = figure.subplots(-(-len(shown) // 2), min(2, len(shown)), squeeze=False).flatten()
    drawn: list[tuple[Axes, list[tuple[float, float, int]], list[Point]]] = []
    for place, name in zip(panels, shown, strict=False):
        points = [
            (value, arm.quality.value, number)
            for number, arm in enumerate(findings.arms)
            if arm.quality is not None and (value := COSTS[name](arm.costs)) is not None
        ]
        best = front([(x, y if findings.better == "lower" else -y) for x, y, _ in points])
        _points(place, findings, points)
        line = sorted(points[at][:2] for at in best)
        place.plot([x for x, _ in line], [y for _, y in line], color=FAINT, linewidth=1, zorder=0)
        place.set_xlabel(name)
        place.set_ylabel(findings.metric)
        place.xaxis.set_major_formatter(EngFormatter())
        place.margins(0.2)
        place.locator_params(axis="x", nbins=5)
        place.grid()
        drawn.append((place, points, line))
    for place in panels[len(shown) :]:
        place.set_axis_off()
    for place, points, line in drawn:
        bars = [end for x, y, number in points for end in _bar(findings.arms[number].quality, x, y)]
        label(
            place, [(x, y) for x, y, _ in points], [findings.arms[number].name for *_, number in points],
            [at for ends in (pairwise(line), bars) for one, other in ends for at in _along(one, other)],
        )  # fmt: skip


def _bar(quality: Interval | None, x: float, y: float) -> Iterator[tuple[Point, Point]]:
    """The ends of an interval's bar."""
    if quality is not None and math.isfinite(quality.low):
        yield (x, quality.low), (x, quality.high)


def _along(one: Point, other: Point) -> Iterator[Point]:
    """Points between two points, which names keep clear of."""
    for i in range(STEPS + 1):
        yield one[0] + (other[0] - one[0]) * i / STEPS, one[1] + (other[1] - one[1]) * i / STEPS


def _points(axes: Axes, findings: Findings, points: list[tuple[float, float, int]]) -> None:
    for x, y, number in points:
        arm: ArmFindings = findings.arms[number]
        assert arm.quality is not None
        reach = [[y - arm.quality.low], [arm.quality.high - y]] if math.isfinite(arm.quality.low) else None
        axes.errorbar(x, y, yerr=reach, fmt=MARKERS[number % len(MARKERS)], color=line_of(number)["color"], capsize=3)


def front(points: list[tuple[float, float]]) -> list[int]:
    """Places of the points that no other is below in one coordinate and not above in the other."""
    return [at for at, (x, y) in enumerate(points) if not any(a <= x and b <= y and (a < x or b < y) for a, b in points)]


def sensitivity(figure: Figure, findings: Findings) -> None:
    """The metric of each arm at every value that was tried; a cross at the top where it diverged."""
    axes = figure.add_subplot(title="sensitivity", xlabel=findings.tuned_path, ylabel=findings.metric, xscale="log")
    for number, arm in enumerate(findings.arms):
        if arm.tuned is None:
            continue
        good = [(value, y) for value, y in arm.tuned.tried.items() if y is not None and math.isfinite(y)]
        style = line_of(number)
        axes.plot([x for x, _ in good], [y for _, y in good], marker=MARKERS[number % len(MARKERS)], label=arm.name, **style)
        best = [(value, y) for value, y in good if value == arm.tuned.best]
        axes.plot([x for x, _ in best], [y for _, y in best], "o", markersize=12, fillstyle="none", color=style["color"])
        lost = [value for value, y in arm.tuned.tried.items() if y is not None and not math.isfinite(y)]
        axes.plot(lost, [0.97] * len(lost), "x", color=style["color"], transform=axes.get_xaxis_transform())
    values = sorted({value for arm in findings.arms if arm.tuned is not None for value in arm.tuned.tried})
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.grid()
    axes.legend()


def _number(findings: Findings, name: str) -> int:
    return next(at for at, arm in enumerate(findings.arms) if arm.name == name)


def ladder(figure: Figure, climb: Climb) -> None:
    """A dot per seed, the law through the means, dotted beyond the largest FLOPs; a line at a crossing."""
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


def lengths(figure: Figure, findings: Findings) -> None:
    """The mean over seeds of each arm at every length, and the band between the lowest and the highest."""
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
