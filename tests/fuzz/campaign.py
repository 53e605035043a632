"""Many cases of each kind, and what became of them."""

from __future__ import annotations

import platform
import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from zoo import ZOO

from anyformer.model.transformer import build
from fuzz import archives, commands, data_files, directories, foreign, foreign_numbers, images, sounds, values
from fuzz.kind import Kind
from fuzz.outcome import BAD, Outcome, judged, little_memory

GROUPS = (values, commands, directories, foreign, foreign_numbers, images, sounds, archives, data_files)
"""The files of this folder that have `KINDS`."""
KINDS: dict[str, Kind] = {name: kind for group in GROUPS for name, kind in group.KINDS.items()}


def campaign(kind: str, seeds: Iterable[int]) -> dict[str, Any]:
    """Outcomes counted, percentiles of seconds and the most bytes of a case, and what none may come to, with its seeds."""
    make = KINDS[kind].make
    build(ZOO["llama"])  # what is loaded once is not the first case's
    platform.platform()  # Python starts `uname` once per process, to say what it runs on
    with little_memory():
        outcomes = {seed: judged(make(seed)) for seed in seeds}
    return {
        "cases": len(outcomes),
        "outcomes": dict(sorted(Counter(each.kind for each in outcomes.values()).items())),
        "seconds": _percentiles([each.seconds for each in outcomes.values()]),
        "bytes": max(each.bytes for each in outcomes.values()),
        "found": found(outcomes),
    }


def found(outcomes: dict[int, Outcome]) -> dict[str, list[int]]:
    """Every outcome of `BAD` -> the first seeds that show it."""
    places: dict[str, list[int]] = {}
    for seed, each in outcomes.items():
        if each.kind in BAD:
            places.setdefault(f"{each.kind}: {each.where}", []).append(seed)
    return {place: seeds[:5] for place, seeds in sorted(places.items())}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    named = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(seconds)}
    return {name: round(value, 5) for name, value in named.items()}
