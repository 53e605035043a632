"""Fits the shares of each generation to the fitted half of the published runs, by least absolute log error.

python docs/published_fit.py prints them; they are then written into src/anyformer/costs/hardware.toml by hand.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from published_runs import Timed, timed

from anyformer.costs.hardware import Efficiency
from anyformer.planning import step
from anyformer.planning.layout import Layout
from anyformer.planning.planner import Candidate

STEP = 0.01
HOURS = 0.6
"""What `share_of_hours` found: of a whole run's hours, those that its steps would have taken at the predicted rate."""
Chosen = dict[Timed, list[Layout]]


def predicted(run: Timed, layouts: list[Layout], shares: Efficiency) -> Candidate | None:
    """With these shares in place of the generation's, but for those that the run is known to have."""
    return run.best(run.on.but(efficiency=replace(shares, **run.shares)), layouts)


def log_error(run: Timed, layouts: list[Layout], shares: Efficiency) -> float:
    """log(predicted / reported); of a planned run, its layout is the one given."""
    found = predicted(run, layouts, shares)
    assert found is not None
    return math.log(found.tokens_per_second / found.layout.ranks / run.rate)


def shares_to_fit(runs: Iterable[Timed]) -> tuple[str, ...]:
    """Of attention and of element-wise work only where some sequences are four times as long as others, which tells the three
    apart."""
    lengths = {run.length for run in runs if run.fitted and not run.whole}
    return ("matrix", "attention", "elementwise") if max(lengths) >= 4 * min(lengths) else ("matrix",)


def fitted(runs: Iterable[Timed], start: Efficiency) -> Efficiency:
    """Shares in steps of 0.01 at which the mean absolute log error of rates is least: downhill until no step helps."""
    runs = [run for run in runs if run.fitted and not run.whole]
    layouts = {run: run.layouts(run.on) for run in runs}

    def loss(shares: Efficiency) -> float:
        return statistics.fmean(abs(log_error(run, each, shares)) for run, each in layouts.items())

    names = shares_to_fit(runs)
    moves = [{name: step} for name in names for step in (STEP, -STEP)]
    # What one share takes, another may give.
    moves += [{one: STEP, other: -STEP} for one in names for other in names if one != other]
    shares, lowest = start, loss(start)
    while nearest := [(loss(after), after) for move in moves if (after := _moved(shares, move)) is not None]:
        found, after = min(nearest, key=lambda each: each[0])
        if found > lowest - 1e-9:
            break
        shares, lowest = after, found
    return shares


def _moved(shares: Efficiency, move: dict[str, float]) -> Efficiency | None:
    """Shares moved by steps; None where one leaves what is sensible."""
    values = {name: round(getattr(shares, name) + step, 2) for name, step in move.items()}
    return replace(shares, **values) if all(0.1 <= value <= 0.95 for value in values.values()) else None


def share_of_hours(runs: Iterable[Timed]) -> float:
    """What share of a whole run's hours steps at the predicted rate take: at which the median ratio of the fitted ones is 1."""
    ratios = [log_error(run, run.layouts(run.on), run.on.efficiency) for run in runs if run.fitted and run.whole]
    return math.exp(-statistics.median(ratios))


def waits(runs: Iterable[Timed]) -> dict[float, float]:
    """Mean absolute log error of the fitted mixtures by the milliseconds that each of their layers waits for the host."""
    runs = [run for run in runs if run.fitted and not run.whole and run.layout and run.mixture]
    layouts, before = {run: run.layouts(run.on) for run in runs}, step.WAITS
    found = {}
    try:
        for value in range(6):
            step.WAITS = value / 1000
            found[value] = statistics.fmean(abs(log_error(run, each, run.on.efficiency)) for run, each in layouts.items())
    finally:
        step.WAITS = before
    return found


if __name__ == "__main__":
    every = timed()
    for generation in dict.fromkeys(run.generation for run in every):
        of = [run for run in every if run.generation == generation]
        if len({run.name for run in of if run.fitted and not run.whole}) > 1:
            shares = fitted(of, of[0].on.efficiency)
            print(generation, {name: getattr(shares, name) for name in shares_to_fit(of)})
    print("milliseconds of waiting", {value: round(error, 3) for value, error in waits(every).items()})
    print("share of hours", round(share_of_hours(every), 2))
