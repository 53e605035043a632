"""What rewards say of many answers: how they are spread, their parts, and whether the answers to a prompt differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anyformer.rewards.reward import Grade

_BINS = 10


@dataclass(frozen=True)
class RewardSurvey:
    """The grades of answers, and to which prompt each belongs, by its number or text."""

    grades: tuple[Grade, ...]
    prompts: tuple[object, ...]

    @property
    def totals(self) -> list[float]:
        """The rewards, in order."""
        return [grade.total for grade in self.grades]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.totals)

    @property
    def deviation(self) -> float:
        """Their standard deviation, of all of them as the whole."""
        return statistics.pstdev(self.totals)

    @property
    def parts(self) -> Mapping[str, float]:
        """The mean of every part over the answers that have it."""
        names = dict.fromkeys(name for grade in self.grades for name in grade.parts)
        return {name: statistics.fmean(grade.parts[name] for grade in self.grades if name in grade.parts) for name in names}

    @property
    def histogram(self) -> list[tuple[float, float, int]]:
        """(from, to, answers): of every reward that there is, if they are ten at most, else of ten equal ranges."""
        totals = self.totals
        values = sorted(set(totals))
        if len(values) <= _BINS:
            return [(value, value, totals.count(value)) for value in values]
        low, high = values[0], values[-1]
        counts = [0] * _BINS
        for total in totals:
            counts[min(_BINS - 1, int((total - low) / (high - low) * _BINS))] += 1
        step = (high - low) / _BINS
        return [(low + step * place, low + step * (place + 1), count) for place, count in enumerate(counts)]

    @property
    def groups(self) -> Mapping[object, Sequence[float]]:
        """The rewards of the answers to each prompt that has several."""
        found: dict[object, list[float]] = {}
        for prompt, total in zip(self.prompts, self.totals, strict=True):
            found.setdefault(prompt, []).append(total)
        return {prompt: totals for prompt, totals in found.items() if len(totals) > 1}

    @property
    def varying(self) -> int:
        """The prompts whose answers differ in their rewards: of the others an advantage within the group is 0."""
        return sum(len(set(totals)) > 1 for totals in self.groups.values())

    def worst(self, count: int) -> list[int]:
        """The places of the answers with the least rewards, the least first."""
        return sorted(range(len(self.grades)), key=lambda place: self.totals[place])[:count]

    @property
    def warning(self) -> str | None:
        """What stands against learning from these rewards by comparison within groups; None if nothing does."""
        if self.groups and not self.varying:
            return (
                f"no reward varies within any of {len(self.groups):,} groups, so that every advantage within a group is 0 and "
                "nothing would be learnt: choose easier prompts, a model that is sometimes right, more answers to a prompt, or "
                "a reward with shares"
            )
        return None


def surveyed(grades: Iterable[Grade], prompts: Iterable[object]) -> RewardSurvey:
    """The survey of some grades, and the prompt that each belongs to."""
    return RewardSurvey(tuple(grades), tuple(prompts))
