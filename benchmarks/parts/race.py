"""Contenders that compute the same: a gate, then turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

from torch import Tensor

ROUNDS = 7
FEWEST_ROUNDS, RACE_SECONDS = 3, 8.0
"""A race that takes longer than this ends early, after no fewer rounds."""
TURN_SECONDS = 0.08
"""Shortest turn: quicker work is repeated within it, so that clocks and caches do not decide."""
TOLERANCE = 2e-4
"""Largest difference that the gate lets through, in shares of the largest entry: fp32 sums in another order."""

Answer = Mapping[str, Tensor]
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Contender:
    """One way to compute an answer; a `twin` is our own plain form, a `peer` is another's implementation."""

    name: str
    work: Callable[[], Answer]
    kind: Literal["ours", "twin", "peer"] = "peer"


@dataclass(frozen=True)
class Comparison:
    """What is computed, at which shape, by whom; `missing`: who cannot take part, and why."""

    shape: str
    ours: Contender
    others: Sequence[Contender]
    missing: Mapping[str, str] = field(default_factory=dict)


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Of one unit."""
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - begin) / repeats


def race(works: Mapping[str, Callable[[], object]]) -> Times:
    """Seconds of one unit of each, round by round; each round starts with another one. All have worked once before."""
    repeats = {name: min(ceil(TURN_SECONDS / seconds(work)), 2000) for name, work in works.items()}
    times: Times = {name: [] for name in works}
    order, begin = list(works), time.perf_counter()
    for number in range(ROUNDS):
        if number >= FEWEST_ROUNDS and time.perf_counter() - begin > RACE_SECONDS:
            break
        for name in order:
            times[name].append(seconds(works[name], repeats[name]))
        order = [*order[1:], order[0]]
    return times


def ratio(times: Times, of: str, to: str) -> float:
    """Median over rounds of seconds(of) / seconds(to)."""
    return round(statistics.median(a / b for a, b in zip(times[of], times[to], strict=True)), 3)


def difference(answer: Answer, expected: Answer) -> float:
    """The largest difference between answers, in shares of the largest entry of each tensor."""
    assert answer.keys() == expected.keys(), f"{sorted(answer)} against {sorted(expected)}"
    return max(
        float((answer[name].reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max().clamp(min=1e-12))
        for name, wanted in expected.items()
    )


def run(comparison: Comparison) -> dict[str, Any]:
    """Gate and race: the record of one comparison."""
    ours = comparison.ours
    expected = ours.work()
    differences = {other.name: difference(other.work(), expected) for other in comparison.others}
    same = [other for other in comparison.others if differences[other.name] <= TOLERANCE]
    times = race({contender.name: contender.work for contender in (ours, *same)})
    refused = {name: f"differs by {d:.1e}" for name, d in differences.items() if not d <= TOLERANCE}
    return {
        "shape": comparison.shape,
        "seconds": {name: round(statistics.median(of), 6) for name, of in times.items()},
        "ours_is_faster_by": {other.name: ratio(times, other.name, ours.name) for other in same},
        "kinds": {other.name: other.kind for other in same},
        "differences": {other.name: float(f"{differences[other.name]:.1e}") for other in same},
        "refused": refused,
        "missing": dict(comparison.missing),
        "times": {name: [round(t, 6) for t in of] for name, of in times.items()},
    }
