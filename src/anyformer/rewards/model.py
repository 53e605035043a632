"""A reward model, which grades by what it has learnt of preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from anyformer.describe import Count
from anyformer.rewards.reward import NO_JUDGES, Grade, Judge, Pair, Query, Response, Reward, RewardError


class ModelReward(Reward):
    """r(x, y), the number that a reward model gives for a prompt x and an answer y.

    The model was trained by the objective `reward`, here or elsewhere (`AutoModelForSequenceClassification` with one label),
    and reads both as it read the answers of its pairs; an answer of turns is one of the assistant to the prompt of the user.
    What it learnt was a difference, so that its level means nothing: an advantage takes that away.
    """

    kind: Literal["model"] = "model"
    path: Annotated[str, Field(min_length=1)]
    """The model: a run, a checkpoint, or a directory of Hugging Face's layout."""
    batch: Count = 1
    """Answers that it reads at a time. More are faster, and the last bits of a reward then depend on those beside it."""

    @property
    def models(self) -> tuple[str, ...]:
        return (self.path,)

    def grade(self, query: Query, response: Response) -> Grade:
        return self.grades([(query, response)])[0]

    def grades(self, pairs: Sequence[Pair], judges: Mapping[str, Judge] = NO_JUDGES) -> list[Grade]:
        if self.path not in judges:
            raise RewardError(
                f"reward model: the model at {self.path} was not read: give `grades` its judge (anyformer.training.judges)"
            )
        found = [
            number
            for first in range(0, len(pairs), self.batch)
            for number in judges[self.path](pairs[first : first + self.batch])
        ]
        return [Grade(number) for number in found]
