"""A term for answers that end by themselves."""

from __future__ import annotations

from typing import Literal

from anyformer.rewards.reward import Grade, Query, Response, Reward


class FinishedReward(Reward):
    """1 where the answer ended by itself, 0 where it was cut at the most tokens that it might have."""

    kind: Literal["finished"] = "finished"

    def grade(self, query: Query, response: Response) -> Grade:
        return Grade(float(response.ended), {"finished": float(response.ended)})
