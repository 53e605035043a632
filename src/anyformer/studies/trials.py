"""Trials: single runs of a study, which ones are due, and what tuning chose. Pure functions of the outcomes so far."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from anyformer.describe import change
from anyformer.studies.arms import ResolvedArm
from anyformer.studies.outcome import Outcome
from anyformer.studies.study import Study
from anyformer.training import Run

Grid = tuple[int | float, ...]
Outcomes = Mapping[str, Outcome]
"""Outcomes by the key of their trial."""
DIGITS = 8
"""Digits of a key in the name of a directory."""


@dataclass(frozen=True)
class Trial:
    """A run of one arm with one seed, on so many threads of a kind of device; `value`: of what is tuned; `tuning`: whether it
    is there to choose that value."""

    arm: str
    run: Run = field(repr=False)
    threads: int
    device: str
    value: int | float | None = None
    tuning: bool = False

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that its numbers depend on: the run, with its precision, and the threads and device that sum."""
        facts = {"run": self.run.digest, "threads": self.threads, "device": self.device}
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def name(self) -> str:
        """Of its directory: arm, value and seed to read, and the first digits of the key."""
        value = "" if self.value is None else f"-{self.value:g}"
        return f"{self.arm}{value}-seed{self.run.seed}-{self.key[:DIGITS]}"


@dataclass(frozen=True)
class Tuned:
    """What tuning found for an arm: the metric of every value that was tried, infinite (or minus infinite, where more is
    better) where the trial diverged and None where it failed, and the best value; `edge`: whether that is at an end of the
    grid; None where every trial failed or diverged."""

    tried: Mapping[int | float, float | None]
    best: int | float | None
    edge: bool


def tuning_trials(study: Study, arms: Sequence[ResolvedArm], device: str, grids: Mapping[str, Grid]) -> Iterator[Trial]:
    """A trial of every arm at every value of its grid, the middle of the grids first."""
    assert study.tuning is not None
    for at in _from_the_middle(len(next(iter(grids.values())))):
        for arm in arms:
            value = grids[arm.name][at]
            run = change(arm.run, study.tuning.path, value).but(seed=study.tuning.seed)
            yield Trial(arm.name, run, study.threads, device, value, tuning=True)


def final_trials(
    study: Study, arms: Sequence[ResolvedArm], device: str, chosen: Mapping[str, int | float | None]
) -> Iterator[Trial]:
    """A trial of every arm with every seed, at the value chosen for it; all arms of a seed before the next seed."""
    for seed in study.seeds:
        for arm in arms:
            value = chosen.get(arm.name)
            run = arm.run.but(seed=seed)
            if value is not None and study.tuning is not None:
                run = change(run, study.tuning.path, value)
            yield Trial(arm.name, run, study.threads, device, value)


@dataclass(frozen=True)
class Stage:
    """All trials that are known to be needed: of tuning, and final ones once tuning is decided."""

    tuning: tuple[Trial, ...] = ()
    final: tuple[Trial, ...] = ()
    tuned: Mapping[str, Tuned] = field(default_factory=dict)

    @property
    def trials(self) -> tuple[Trial, ...]:
        return (*self.tuning, *self.final)


def stage(study: Study, arms: Sequence[ResolvedArm], device: str, outcomes: Outcomes) -> Stage:
    """What the study needs, as far as the outcomes so far decide it. The same outcomes give the same trials, whoever asks."""
    tuning = study.tuning
    if tuning is None:
        return Stage(final=tuple(final_trials(study, arms, device, {})))
    grids = {arm.name: study.grid(arm.name) for arm in arms}
    widened = 0
    while True:
        trials = tuple(tuning_trials(study, arms, device, grids))
        if any(trial.key not in outcomes for trial in trials):
            return Stage(trials)
        tuned = {arm.name: tuned_arm(study, grids[arm.name], _of(arm.name, trials), outcomes) for arm in arms}
        ends = {end for name, found in tuned.items() for end in _ends(found, grids[name])}
        if not ends or widened == tuning.widen:
            chosen = {name: found.best for name, found in tuned.items()}
            return Stage(trials, tuple(final_trials(study, _with_values(arms, chosen), device, chosen)), tuned)
        widened += 1
        grids = {name: widen(grid, min(ends)) for name, grid in grids.items()}


def tuned_arm(study: Study, grid: Grid, trials: Sequence[Trial], outcomes: Outcomes) -> Tuned:
    """The best value of an arm's grid, the smaller of two that are equally good."""
    worst = math.inf if study.better == "lower" else -math.inf
    sign = 1 if study.better == "lower" else -1
    by_value = {trial.value: outcomes[trial.key] for trial in trials}
    tried = {value: by_value[value].number(study.metric, worst) for value in grid}
    good = [value for value in grid if (number := tried[value]) is not None and math.isfinite(number)]
    best = min(good, key=lambda value: sign * (tried[value] or 0.0), default=None)
    return Tuned(tried, best, best in (grid[0], grid[-1]))


def widen(grid: Grid, end: int) -> Grid:
    """The grid with one value more at its lower (0) or upper (1) end, at the ratio of the two values there."""
    first, second = (grid[0], grid[1]) if end == 0 else (grid[-1], grid[-2])
    value = first * first / second
    # Of whole numbers the next one is whole, and no value twice.
    new = max(1, round(value)) if all(isinstance(each, int) for each in grid) else float(f"{value:.6g}")
    if new in grid:
        return grid
    return (new, *grid) if end == 0 else (*grid, new)


def _ends(found: Tuned, grid: Grid) -> Iterator[int]:
    """The end of the grid at which the best value is, where it can grow there."""
    for end, value in ((0, grid[0]), (1, grid[-1])):
        if found.best == value and widen(grid, end) != grid:
            yield end


def _of(name: str, trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.arm == name]


def _with_values(arms: Sequence[ResolvedArm], chosen: Mapping[str, int | float | None]) -> list[ResolvedArm]:
    """The arms that tuning found a value for."""
    return [arm for arm in arms if chosen[arm.name] is not None]


def _from_the_middle(count: int) -> list[int]:
    """Places of a list, those in the middle first."""
    return sorted(range(count), key=lambda at: (abs(2 * at - count + 1), at))
