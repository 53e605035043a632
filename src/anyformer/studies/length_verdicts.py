"""What arms reach at other lengths than the trained one, compared as at that one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from anyformer.evaluation.intervals import Interval
from anyformer.studies.running import Ran
from anyformer.studies.statistics import ArmComparison, compare, interval


@dataclass(frozen=True)
class AtLength:
    """The arms at a length. `numbers`: the metric by arm and seed, None where the trial diverged; `quality`: means over the
    finished seeds with their t intervals at 1 - alpha; `comparisons`: with the base, at alpha divided by the number of lengths,
    so that over all these lengths together a false verdict has at most the probability alpha."""

    length: int
    numbers: Mapping[str, Mapping[int, float | None]]
    quality: Mapping[str, Interval | None]
    comparisons: tuple[ArmComparison, ...]


def at_lengths(ran: Ran) -> tuple[AtLength, ...]:
    """The study's other lengths, in rising order."""
    return tuple(_at(ran, length) for length in ran.study.lengths)


def _at(ran: Ran, length: int) -> AtLength:
    study = ran.study
    worst = math.inf if study.better == "lower" else -math.inf
    numbers: dict[str, dict[int, float]] = {arm.name: {} for arm in ran.arms}
    for trial in ran.stage.final:
        number = ran.outcomes[trial.key].number_at(length, study.metric, worst)
        if number is not None:
            numbers[trial.arm][trial.run.seed] = number
    others = {name: found for name, found in numbers.items() if name != study.base_name}
    alpha = study.alpha / len(study.lengths)
    compared = compare(numbers[study.base_name], others, lower=study.better == "lower", alpha=alpha)
    finite = {name: [each for each in found.values() if math.isfinite(each)] for name, found in numbers.items()}
    return AtLength(
        length,
        {
            name: {seed: each if math.isfinite(each) else None for seed, each in found.items()}
            for name, found in numbers.items()
        },
        {name: interval(each, 1 - study.alpha) if each else None for name, each in finite.items()},
        tuple(compared.values()),
    )
