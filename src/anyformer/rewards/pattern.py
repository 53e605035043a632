"""An answer that a regular expression is found in."""

from __future__ import annotations

from typing import Literal

from anyformer.rewards.expressions import Expression, found
from anyformer.rewards.reward import Grade, Query, Response, Reward


class PatternReward(Reward):
    """1 where the regular expression is found in the answer, else 0; `^(...)$` asks for all of it.

    A search that takes longer than five seconds is given up, counts as not found, and is logged as `too_slow`.
    """

    kind: Literal["pattern"] = "pattern"
    pattern: Expression
    """The expression, of the package `regex`; `(?s)` in front lets a dot be a line's end."""

    def grade(self, query: Query, response: Response) -> Grade:
        match, slow = found(self.pattern, response.text)
        return Grade(float(match is not None), {"found": float(match is not None), "too_slow": float(slow)})
