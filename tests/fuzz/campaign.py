"""Many cases of each kind, and what became of them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from zoo import ZOO

from anyformer.model import build
from fuzz.commands import command
from fuzz.directories import directory
from fuzz.outcome import Outcome, judged, little_memory
from fuzz.values import configuration, description

KINDS: dict[str, tuple[Callable[[int], Callable[[], Any]], int]] = {
    "configurations": (configuration, 10_000),
    "descriptions": (description, 10_000),
    "commands": (command, 1_000),
    "directories": (directory, 600),
}
"""What is attacked -> the case of a seed, and how many there are in a full campaign."""
BAD = ("escape", "hang")


def campaign(kind: str, seeds: Iterable[int]) -> dict[str, Any]:
    """Outcomes counted, percentiles of seconds per case, and where each escape and hang is, with its first seeds."""
    make, _ = KINDS[kind]
    build(ZOO["llama"])  # what is loaded once is not the first case's time
    with little_memory():
        outcomes = {seed: judged(lambda seed=seed: make(seed)()) for seed in seeds}
    return {
        "cases": len(outcomes),
        "outcomes": dict(sorted(Counter(each.kind for each in outcomes.values()).items())),
        "seconds": _percentiles([each.seconds for each in outcomes.values()]),
        "found": found(outcomes),
    }


def found(outcomes: dict[int, Outcome]) -> dict[str, list[int]]:
    """Every escape and hang -> the first seeds that show it."""
    places: dict[str, list[int]] = {}
    for seed, each in outcomes.items():
        if each.kind in BAD:
            places.setdefault(f"{each.kind}: {each.where}", []).append(seed)
    return {place: seeds[:5] for place, seeds in sorted(places.items())}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    named = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(seconds)}
    return {name: round(value, 5) for name, value in named.items()}
