"""Generated tasks, which grade themselves."""

from __future__ import annotations

from typing import Literal

from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError


class TaskReward(Reward):
    """Whether the answer to a question of a generated task is right, as its task says (`Task.grade`).

    `whole`: 1 where every symbol is right and none is too many, else 0. `share`: the symbols that are right at their places,
    over those that were wanted or said, whichever are more, so that no longer answer is better.
    """

    kind: Literal["task"] = "task"
    counts: Literal["whole", "share"] = "whole"
    """Which of the two is the reward; both are logged."""

    @property
    def reads_tokens(self) -> bool:
        return True

    def grade(self, query: Query, response: Response) -> Grade:
        if query.question is None:
            raise RewardError(
                f"reward task: the prompt {query.shown} is of no generated task: give data.kind = 'task', or another reward"
            )
        wanted = query.question.wanted
        parts = query.question.task.grade(wanted, response.names or tuple(response.text.split()))
        return Grade(parts[self.counts], parts)
