"""Shares fitted to some sources and judged on others: `python docs/published_sources.py` writes benchmarks/results/published_sources.json.

The sources of a generation, in the order of the CRC-32 of their names, go to the half that is fitted to and to the other in
turn, so that nobody chooses, and a source is never in both. Of each source at most `MOST` rates count for the fit, the first by
the CRC-32 of their names, so that a long table is no more than a short one. A generation with one source is not judged.
Called again, it goes on with the generations that are left.
"""

from __future__ import annotations

import json
import math
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from published_fit import Chosen, log_error
from published_runs import Timed, timed

from anyformer.costs.hardware import Efficiency

RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "published_sources.json"
MOST = 8
GRIDS: Mapping[str, Sequence[float]] = {
    "matrix": tuple(round(0.35 + 0.05 * i, 2) for i in range(12)),
    "attention": tuple(round(0.1 + 0.1 * i, 2) for i in range(7)),
    "elementwise": tuple(round(0.1 + 0.1 * i, 2) for i in range(7)),
}
"""Values that are tried of each share, one share after the other, twice."""


def checksum(*words: object) -> int:
    """Of what something is called."""
    return zlib.crc32("|".join(map(str, words)).encode())


def fitted_sources(runs: Iterable[Timed]) -> set[str]:
    """The sources of the half that is fitted to, of runs of one generation."""
    return set(sorted({run.source for run in runs}, key=checksum)[::2])


def counted(runs: Iterable[Timed]) -> list[Timed]:
    """At most `MOST` of every source."""
    of: dict[str, list[Timed]] = {}
    for run in sorted(runs, key=lambda run: checksum(run.source, run.name, run.row)):
        of.setdefault(run.source, []).append(run)
    return [run for each in of.values() for run in each[:MOST]]


def fit(runs: Sequence[Timed]) -> Efficiency:
    """The shares of the grids at which the mean absolute log error, each source counted alike, is least."""
    layouts: Chosen = {run: run.layouts(run.on) for run in runs}
    lengths = {run.length for run in runs}
    names = ("matrix", "attention", "elementwise") if max(lengths) >= 4 * min(lengths) else ("matrix",)
    shares = replace(Efficiency(), network=runs[0].on.efficiency.network, overlap=runs[0].on.efficiency.overlap)

    def loss(shares: Efficiency) -> float:
        of: dict[str, list[float]] = {}
        for run, each in layouts.items():
            of.setdefault(run.source, []).append(abs(log_error(run, each, shares)))
        return statistics.fmean(map(statistics.fmean, of.values()))

    for _ in range(2 if len(names) > 1 else 1):
        for name in names:
            shares = min((replace(shares, **{name: value}) for value in GRIDS[name]), key=loss)
    return shares


def judged(generation: str, runs: Sequence[Timed]) -> dict[str, Any]:
    """Shares of one half, and the errors of every rate of the other."""
    fitting = fitted_sources(runs)
    shares = fit(counted(run for run in runs if run.source in fitting))
    rows = []
    for run in runs:
        half = "fitted" if run.source in fitting else "test"
        if half == "test" or run in counted(runs):
            error = math.exp(log_error(run, run.layouts(run.on), shares)) - 1
            facts = {"mixture": run.mixture, "format": run.plan.named, "attention": run.kernel, "active": run.active / 1e9}
            rows.append({"source": run.source, "half": half, **facts, "error": error})
    return {"generation": generation, "shares": {name: getattr(shares, name) for name in GRIDS}, "rows": rows}


def main() -> None:
    """Judge the generations that are left, one after the other, and write each down."""
    record: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {"most": MOST, "generations": []}
    every = [run for run in timed() if not run.whole]
    for generation in dict.fromkeys(run.generation for run in every):
        of = [run for run in every if run.generation == generation]
        if generation in {each["generation"] for each in record["generations"]} or len({run.source for run in of}) < 2:
            continue
        record["generations"].append(judged(generation, of))
        record["date"] = date.today().isoformat()
        RESULT.write_text(json.dumps(record, indent=1) + "\n")
        print(generation, record["generations"][-1]["shares"], flush=True)


if __name__ == "__main__":
    main()
