"""Several rewards at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Named, Value
from anyformer.rewards.reward import NO_JUDGES, Grade, Judge, Pair, Query, Response, Reward


class WeightedReward(Value):
    """A reward and its factor in a sum."""

    reward: Reward
    """The reward."""
    weight: Annotated[float, Field(ge=-1e6, le=1e6)] = 1.0
    """Its factor, which may be negative."""


class MixtureReward(Reward):
    """The sum of several rewards, each times its weight: R = sum_i w_i R_i.

    Each has a name, under which its own reward is logged, and its parts as `NAME.PART`.
    """

    kind: Literal["mixture"] = "mixture"
    parts: Named[WeightedReward]
    """The rewards by their names: `parts.right = { reward = { kind = "task" }, weight = 1.0 }`."""

    @model_validator(mode="after")
    def _of_some(self) -> MixtureReward:
        if not any(part.weight for part in self.parts.values()):
            raise ValueError("parts have no weight that is not 0: give one, as in parts.right = { reward = 'task' }")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts.values() for column in part.reward.columns))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for part in self.parts.values() for path in part.reward.models))

    @property
    def reads_tokens(self) -> bool:
        return any(part.reward.reads_tokens for part in self.parts.values())

    def check(self) -> None:
        for part in self.parts.values():
            part.reward.check()

    def grade(self, query: Query, response: Response) -> Grade:
        return self.grades([(query, response)])[0]

    def grades(self, pairs: Sequence[Pair], judges: Mapping[str, Judge] = NO_JUDGES) -> list[Grade]:
        every = {name: part.reward.grades(pairs, judges) for name, part in self.parts.items()}
        return [self._summed({name: grades[row] for name, grades in every.items()}) for row in range(len(pairs))]

    def _summed(self, grades: Mapping[str, Grade]) -> Grade:
        logged = dict[str, float]()
        for name, grade in grades.items():
            logged |= {name: grade.total, **{f"{name}.{part}": number for part, number in grade.parts.items()}}
        return Grade(sum(self.parts[name].weight * grade.total for name, grade in grades.items()), logged)
