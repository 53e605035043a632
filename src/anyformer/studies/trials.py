"""Trials: single runs of a study, which ones are due, and what tuning chose. Pure functions of the outcomes so far."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from statistics import fmean
from types import MappingProxyType

from anyformer.describe import change
from anyformer.studies.arms import ResolvedArm
from anyformer.studies.outcome import TrialOutcome
from anyformer.studies.sizes import SizeGate
from anyformer.studies.study import Study
from anyformer.training import Run

Grid = tuple[int | float, ...]
Outcomes = Mapping[str, TrialOutcome]
"""Outcomes by the key of their trial."""
DIGITS = 8
"""Digits of a key in the name of a directory."""
WHOLE = 1.0


@dataclass(frozen=True)
class Trial:
    """A run of one arm with one seed, on so many threads of a kind of device; `value`: of what is tuned; `tuning`: whether it
    is there to choose that value, or an arm; `size`: of the arm, as a multiple of the whole; `lengths`: others than the run's
    that its model is asked at, once it is trained."""

    arm: str
    run: Run = field(repr=False)
    threads: int
    device: str
    value: int | float | None = None
    tuning: bool = False
    size: float = 1.0
    lengths: tuple[int, ...] = ()

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that its numbers depend on: the run, with its precision, and the threads and device that sum."""
        facts = {"run": self.run.digest, "threads": self.threads, "device": self.device}
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def name(self) -> str:
        """Of its directory: arm, size, value and seed to read, and the first digits of the key."""
        value = "" if self.value is None else f"-{self.value:g}"
        size = "" if self.size == 1 else f"-x{self.size:g}"
        return f"{self.arm}{size}{value}-seed{self.run.seed}-{self.key[:DIGITS]}"


@dataclass(frozen=True)
class TunedArm:
    """What tuning found for an arm: the metric of every value that was tried, its mean over seeds, infinite (or minus infinite,
    where more is better) where a trial diverged and None where one failed, and the best value; `edge`: whether that is at an
    end of the grid; None where a trial of every value failed or diverged."""

    tried: Mapping[int | float, float | None]
    best: int | float | None
    edge: bool


def tuning_trials(study: Study, arms: Sequence[ResolvedArm], device: str, grids: Mapping[str, Grid]) -> Iterator[Trial]:
    """Trials of every arm at every value of its grid, the middle of the grids first."""
    assert study.tuning is not None
    for at in _from_the_middle(len(next(iter(grids.values())))):
        for seed, arm in product(study.tuning.seeds, arms):
            value = grids[arm.name][at]
            run = change(arm.run, study.tuning.path, value).but(seed=seed)
            yield Trial(arm.name, run, study.threads, device, value, tuning=True, size=arm.size)


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
            lengths = study.lengths if arm.size == WHOLE else ()
            yield Trial(arm.name, run, study.threads, device, value, size=arm.size, lengths=lengths)


@dataclass(frozen=True)
class Passed:
    """What a gate decided: the metric of every arm that was tried there (None where it failed, infinite where it diverged), and
    the names of those that went on, the base among them."""

    size: float
    numbers: Mapping[str, float | None]
    kept: tuple[str, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(name for name in self.numbers if name not in self.kept)


@dataclass(frozen=True)
class StudyStage:
    """All trials that are known to be needed: of gates and of tuning, then final ones, and those at the sizes of a ladder.

    `tuned`: by arm, at the size of the final trials or at that from which the value is taken over; `elsewhere`: at other sizes.
    """

    tuning: tuple[Trial, ...] = ()
    final: tuple[Trial, ...] = ()
    tuned: Mapping[str, TunedArm] = field(default_factory=dict)
    gates: tuple[Passed, ...] = ()
    rungs: Mapping[float, tuple[Trial, ...]] = field(default_factory=dict)
    elsewhere: Mapping[float, Mapping[str, TunedArm]] = field(default_factory=dict)

    @property
    def trials(self) -> tuple[Trial, ...]:
        return (*self.tuning, *self.final, *(trial for trials in self.rungs.values() for trial in trials))


Arms = Sequence[ResolvedArm]


def sizes_of(study: Study) -> tuple[float, ...]:
    """The smaller sizes that a study needs its arms at, in rising order."""
    found = {gate.size for gate in study.gates} | set(() if study.ladder is None else study.ladder.sizes)
    if study.tuning is not None and study.tuning.size is not None:
        found.add(study.tuning.size)
    return tuple(sorted(found))


def stage(
    study: Study, arms: Arms, device: str, outcomes: Outcomes, smaller: Mapping[float, Arms] = MappingProxyType({})
) -> StudyStage:
    """What the study needs, as far as the outcomes so far decide it. The same outcomes give the same trials, whoever asks.

    `smaller`: the arms at each of `sizes_of(study)`. Gates come first, one after the other, then tuning, then the final trials.
    """
    tried: dict[str, Trial] = {}
    passed: list[Passed] = []
    names = [arm.name for arm in arms]
    for gate in study.gates:
        trials, numbers = _at_gate(study, gate, _those(smaller[gate.size], names), device, outcomes)
        tried |= {trial.key: trial for trial in trials}
        if numbers is None:
            return StudyStage(tuple(tried.values()), gates=tuple(passed))
        names = _kept(study, gate, numbers, arms[0].name)
        passed.append(Passed(gate.size, numbers, tuple(names)))
    left = {WHOLE: _those(arms, names)}
    for size in () if study.ladder is None else study.ladder.sizes:
        left[size] = _those(smaller[size], names)
    tuned: dict[float, Mapping[str, TunedArm]] = {}
    if study.tuning is not None:
        at = study.tuning.size
        wanted = left if at is None else {at: _those(smaller[at], names)}
        done = True
        for size, here in wanted.items():
            trials, found = _tuned(study, here, device, outcomes)
            tried |= {trial.key: trial for trial in trials}
            done = done and found is not None
            tuned |= {} if found is None else {size: found}
        if not done:
            return StudyStage(tuple(tried.values()), gates=tuple(passed))
    finals = {}
    for size, here in left.items():
        chosen = {name: each.best for name, each in (tuned.get(size) or next(iter(tuned.values()), {})).items()}
        finals[size] = tuple(final_trials(study, _with_values(here, chosen), device, chosen))
    main = tuned.get(WHOLE) or next(iter(tuned.values()), {})
    return StudyStage(
        tuple(tried.values()), finals.pop(WHOLE), main, tuple(passed), finals,
        {size: found for size, found in tuned.items() if found is not main},
    )  # fmt: skip


def _those(arms: Arms, names: Sequence[str]) -> Arms:
    return [arm for arm in arms if arm.name in names]


def _at_gate(
    study: Study, gate: SizeGate, arms: Arms, device: str, outcomes: Outcomes
) -> tuple[Sequence[Trial], dict[str, float | None] | None]:
    """The trials of a gate, and once they ended the metric of each arm, at its best value where one is tuned."""
    if study.tuning is not None:
        trials, found = _tuned(study, arms, device, outcomes)
        if found is None:
            return trials, None
        return trials, {name: _at_best(each) for name, each in found.items()}
    once = [Trial(arm.name, arm.run.but(seed=gate.seed), study.threads, device, tuning=True, size=arm.size) for arm in arms]
    if any(trial.key not in outcomes for trial in once):
        return once, None
    return once, {trial.arm: outcomes[trial.key].number(study.metric, _worst(study)) for trial in once}


def _at_best(found: TunedArm) -> float | None:
    """The metric at the best value; of an arm without one, that it failed or diverged."""
    return next(iter(found.tried.values())) if found.best is None else found.tried[found.best]


def _kept(study: Study, gate: SizeGate, numbers: Mapping[str, float | None], base: str) -> list[str]:
    """The base and the best arms beside it, in the order of the study; of equally good ones the earlier."""
    sign = 1 if study.better == "lower" else -1
    ranked = sorted(
        (name for name, number in numbers.items() if number is not None and name != base),
        key=lambda name: sign * (numbers[name] or 0.0),
    )
    best = {base, *ranked[: gate.keep]}
    return [name for name in numbers if name in best]


def _tuned(study: Study, arms: Arms, device: str, outcomes: Outcomes) -> tuple[Sequence[Trial], dict[str, TunedArm] | None]:
    """The trials that choose a value per arm, and once all ended what they chose."""
    assert study.tuning is not None
    grids = {arm.name: study.grid(arm.name) for arm in arms}
    widened = 0
    while True:
        trials = tuple(tuning_trials(study, arms, device, grids))
        if any(trial.key not in outcomes for trial in trials):
            return trials, None
        tuned = {arm.name: tuned_arm(study, grids[arm.name], _of(arm.name, trials), outcomes) for arm in arms}
        ends = {end for name, found in tuned.items() for end in _ends(found, grids[name])}
        if not ends or widened == study.tuning.widen:
            return trials, tuned
        widened += 1
        grids = {name: widen(grid, min(ends)) for name, grid in grids.items()}


def _worst(study: Study) -> float:
    return math.inf if study.better == "lower" else -math.inf


def tuned_arm(study: Study, grid: Grid, trials: Sequence[Trial], outcomes: Outcomes) -> TunedArm:
    """The best value of an arm's grid, the smaller of two that are equally good."""
    worst = _worst(study)
    sign = 1 if study.better == "lower" else -1
    tried = {
        value: _mean([outcomes[each.key].number(study.metric, worst) for each in trials if each.value == value])
        for value in grid
    }
    good = [value for value in grid if (number := tried[value]) is not None and math.isfinite(number)]
    best = min(good, key=lambda value: sign * (tried[value] or 0.0), default=None)
    return TunedArm(tried, best, best in (grid[0], grid[-1]))


def _mean(numbers: Sequence[float | None]) -> float | None:
    """The mean, None where one is missing."""
    there = [number for number in numbers if number is not None]
    return fmean(there) if len(there) == len(numbers) else None


def widen(grid: Grid, end: int) -> Grid:
    """The grid with one value more at its lower (0) or upper (1) end, at the ratio of the two values there."""
    first, second = (grid[0], grid[1]) if end == 0 else (grid[-1], grid[-2])
    value = first * first / second
    # Of whole numbers the next one is whole, and no value twice.
    new = max(1, round(value)) if all(isinstance(each, int) for each in grid) else float(f"{value:.6g}")
    if new in grid:
        return grid
    return (new, *grid) if end == 0 else (*grid, new)


def _ends(found: TunedArm, grid: Grid) -> Iterator[int]:
    """The end of the grid at which the best value is, where it can grow there."""
    for end, value in ((0, grid[0]), (1, grid[-1])):
        if found.best == value and widen(grid, end) != grid:
            yield end


def _of(name: str, trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.arm == name]


def _with_values(arms: Sequence[ResolvedArm], chosen: Mapping[str, int | float | None]) -> list[ResolvedArm]:
    """The arms that tuning found a value for; all where nothing is tuned."""
    return [arm for arm in arms if not chosen or chosen[arm.name] is not None]


def _from_the_middle(count: int) -> list[int]:
    """Places of a list, those in the middle first."""
    return sorted(range(count), key=lambda at: (abs(2 * at - count + 1), at))
