"""What the smaller sizes of a study tell: which arms passed its gates, and the laws that its ladder gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anyformer.studies.arms import ResolvedArm
from anyformer.studies.laws import ComputeLaw, LawCrossing, crossed, fit
from anyformer.studies.running import Ran
from anyformer.studies.trials import WHOLE


@dataclass(frozen=True)
class Rung:
    """An arm at one size: what it has, its FLOPs of training, and the loss of every seed that finished."""

    size: float
    width: int
    parameters: int
    tokens: int
    flops: int
    numbers: Mapping[int, float]


@dataclass(frozen=True)
class Climbed:
    """An arm over the sizes of the ladder: `law`: fitted to the means, None where a size has no number; `crossing`: with the
    base's law, None for the base itself or without laws."""

    name: str
    rungs: tuple[Rung, ...]
    law: ComputeLaw | None
    crossing: LawCrossing | None


@dataclass(frozen=True)
class Climb:
    """The ladder of a study; `beyond`: how many times the largest FLOPs laws are followed; `largest`: those FLOPs."""

    arms: tuple[Climbed, ...]
    beyond: float
    largest: float


def climb(ran: Ran) -> Climb | None:
    """The ladder of a study; None where it has none."""
    ladder = ran.study.ladder
    if ladder is None:
        return None
    rungs = {arm.name: _rungs(ran, arm.name) for arm in ran.arms}
    laws = {name: _law(found) for name, found in rungs.items()}
    base = ran.arms[0].name
    arms = []
    for name, found in rungs.items():
        between = None
        if name != base and laws[name] is not None and laws[base] is not None:
            between = _crossing(found, rungs[base], ladder.beyond, ran.study.alpha)
        arms.append(Climbed(name, found, laws[name], between))
    largest = max((rung.flops for found in rungs.values() for rung in found), default=0)
    return Climb(tuple(arms), ladder.beyond, float(largest))


def _rungs(ran: Ran, name: str) -> tuple[Rung, ...]:
    found = []
    for size, trials in sorted({**ran.stage.rungs, WHOLE: ran.stage.final}.items()):
        arm = next(each for each in _at(ran, size) if each.name == name)
        numbers = {
            trial.run.seed: number
            for trial in trials
            if trial.arm == name and (number := ran.outcomes[trial.key].number(ran.study.metric, math.inf)) is not None
        }
        finite = {seed: number for seed, number in numbers.items() if math.isfinite(number)}
        found.append(Rung(size, arm.run.architecture.width, arm.parameters, arm.tokens, arm.flops, finite))
    return tuple(found)


def _at(ran: Ran, size: float) -> Sequence[ResolvedArm]:
    return ran.arms if size == WHOLE else ran.smaller[size]


def _law(rungs: Sequence[Rung]) -> ComputeLaw | None:
    if len(rungs) < 3 or not all(rung.numbers for rung in rungs):
        return None
    return fit([rung.flops for rung in rungs], [float(np.mean(list(rung.numbers.values()))) for rung in rungs])


def _crossing(arm: Sequence[Rung], base: Sequence[Rung], beyond: float, alpha: float) -> LawCrossing | None:
    """From the seeds that finished at every size of both."""
    seeds = sorted(set.intersection(*(set(rung.numbers) for rung in (*arm, *base))))
    if not seeds:
        return None
    losses = tuple(np.array([[rung.numbers[seed] for rung in rungs] for seed in seeds]) for rungs in (arm, base))
    return crossed(
        ([rung.flops for rung in arm], [rung.flops for rung in base]), (losses[0], losses[1]), beyond=beyond, alpha=alpha
    )
