"""Arms whose updates take as long as the base's: measured in turns, resized by the solver, measured again, and kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from anyformer.costs import Budget, UnmatchedError, budget_of
from anyformer.costs.match import match
from anyformer.describe import read_json
from anyformer.files import locked, write_text
from anyformer.measuring.measure import timed
from anyformer.measuring.trial import TrainingStep
from anyformer.model import Architecture
from anyformer.resizing.sizes import Sizes, resized, sizes
from anyformer.studies.arms import Moved
from anyformer.studies.forecast import with_threads
from anyformer.studies.study import SECONDS, Matching, Study
from anyformer.training import Run
from anyformer.training.precision import default_device

KEPT = "seconds.json"
ROUNDS, WARM = 15, 2
"""Updates of each side that are measured, and those before, which are not."""
TRIES = 8
"""Sizes that are measured before giving up."""
NEAR = 0.01
"""How near the solver comes to the FLOPs that it is given; the clock decides, not these."""
STEEPEST, FLATTEST = 1.5, 0.25
"""Bounds of the exponent a of seconds ~ FLOPs^a by which the next size is aimed at; it is small where calls take the time."""


@dataclass(frozen=True)
class Turns:
    """Median seconds of an update per token of the base and of an arm, times the base's tokens; `ratio`: the median over
    rounds of arm over base, each round's two updates being neighbours in time."""

    base: float
    arm: float
    ratio: float

    @property
    def off(self) -> float:
        """The relative distance."""
        return abs(self.ratio - 1)


Clock = Callable[[Run, Run], Turns]


def in_turns(base: Run, arm: Run) -> Turns:
    """Measure updates of both on made-up tokens, one after the other, in turns also which is first: what slows the machine down
    for a while slows both."""
    device = default_device()
    steps = [TrainingStep(run.architecture, run.piece, run.plan, device, run.optimiser) for run in (base, arm)]
    share = base.tokens / arm.tokens
    seconds: tuple[list[float], list[float]] = [], []
    for turn in range(WARM + ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            taken = timed(steps[side].update, device)
            if turn >= WARM:
                seconds[side].append(taken)
    of_base = [each * base.accumulation for each in seconds[0]]
    of_arm = [each * arm.accumulation * share for each in seconds[1]]
    return Turns(median(of_base), median(of_arm), median(b / a for a, b in zip(of_base, of_arm, strict=True)))


def matched_in_seconds(run: Run, base: Run, matching: Matching, clock: Clock = in_turns) -> tuple[Run, Moved]:
    """The run at sizes whose updates take as long as the base's, by two measurements. Raises `UnmatchedError` with the nearest.

    The solver knows FLOPs and not seconds: it is given those at which the last measurements say that the time will be right.
    """
    points: list[tuple[float, float]] = []
    tried: dict[Architecture, Turns] = {}
    architecture = run.architecture
    for _ in range(TRIES):
        found = clock(base, run.but(architecture=architecture))
        if found.off <= matching.tolerance:
            found = clock(base, run.but(architecture=architecture))  # the first one may have been luck
            if found.off <= matching.tolerance:
                moved = Moved(sizes(run.architecture), sizes(architecture), {SECONDS: (found.base, found.arm)}, found.off)
                return run.but(architecture=architecture), moved
        tried[architecture] = found
        points.append((math.log(_flops(architecture, base)), math.log(found.ratio)))
        architecture = _solved(run.architecture, math.exp(aim(points)), base, matching)
        if architecture in tried:
            break
    nearest, turns = min(tried.items(), key=lambda each: each[1].off)
    at = ", ".join(f"{name} = {value:,}" for name, value in asdict(sizes(nearest)).items())
    raise UnmatchedError(
        f"{', '.join(matching.move)}: none of {len(tried)} sizes takes as long as the base's {1e3 * turns.base:.3g} ms "
        f"an update, within {matching.tolerance:.1%}. The nearest is {at}, with {1e3 * turns.arm:.3g} ms. Let more sizes "
        f"move, set a smaller multiple than {matching.multiple}, or measure while nothing else runs",
        None,
    )


def aim(points: list[tuple[float, float]]) -> float:
    """The logarithm of the FLOPs at which that of the ratio is 0, by (FLOPs, ratio) in logarithms: between the nearest points
    on both sides, else along the line through the last two."""
    below = max((point for point in points if point[1] < 0), default=None)
    above = min((point for point in points if point[1] > 0), default=None)
    if below is not None and above is not None and below[0] < above[0]:
        return below[0] - below[1] * (above[0] - below[0]) / (above[1] - below[1])
    (at, ratio), *before = reversed(points)
    slope = 1.0
    if before and before[0][0] != at:
        slope = min(STEEPEST, max(FLATTEST, (ratio - before[0][1]) / (at - before[0][0])))
    return at - ratio / slope


def _flops(architecture: Architecture, base: Run) -> int:
    flops = budget_of(architecture, length=base.length).training_flops
    assert flops is not None
    return flops


def _solved(architecture: Architecture, flops: float, base: Run, matching: Matching) -> Architecture:
    """The architecture at sizes of about so many FLOPs, or the nearest to it."""
    budget = Budget(training_flops=max(1, round(flops)), length=base.length)
    try:
        return match(architecture, budget, move=matching.move, multiple=matching.multiple, tolerance=NEAR).architecture
    except UnmatchedError as error:
        if error.nearest is None:
            raise
        return error.nearest.architecture


def kept_in(study: Study, directory: Path, clock: Clock = in_turns) -> Callable[[Run], tuple[Run, Moved]]:
    """Matches a run in seconds once for a directory: what was found is written there and holds from then on, so that a study
    that goes on, here or in another process, trains the same sizes."""
    matching = study.match
    assert matching is not None

    def matched(run: Run) -> tuple[Run, Moved]:
        facts = [study.base.digest, run.digest, study.threads, matching.plain()]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        with locked(directory / ".lock"):
            found = _read(directory / KEPT)
            if key in found:
                return _again(run, found[key], matching)
            with with_threads(study.threads):
                made, moved = matched_in_seconds(run, study.base, matching, clock)
            write_text(directory / KEPT, json.dumps({**found, key: asdict(moved)}, indent=1) + "\n")
            return made, moved

    return matched


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = read_json(path)
    except FileNotFoundError:
        return {}
    return found


def _again(run: Run, facts: Mapping[str, Any], matching: Matching) -> tuple[Run, Moved]:
    """What was found before."""
    after = Sizes(**facts["after"])
    base, arm = facts["costs"][SECONDS]
    moved = Moved(Sizes(**facts["before"]), after, {SECONDS: (base, arm)}, facts["off"])
    return run.but(architecture=resized(run.architecture, after, matching.multiple)), moved
