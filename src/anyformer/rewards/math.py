"""Mathematical answers, compared by value."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Literal

from anyformer.describe import Positive
from anyformer.rewards.aside import AsideError, aside
from anyformer.rewards.record_fields import text_of
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError, shown


class MathReward(Reward):
    """1 where the mathematical expression that an answer ends with is worth what a field of its record says, else 0.

    Fractions, roots, sets, intervals, matrices and equations, in LaTeX (`\\boxed{}` first) or as plain numbers, as
    `math-verify` reads and compares them (the extra `rewards`). `parts`: `right`, and `read`, whether it found an expression in
    the answer.
    """

    kind: Literal["math"] = "math"
    column: str = "answer"
    """The field of the record with the right answer: LaTeX, or a number."""
    seconds: Positive = 10.0
    """The longest time of one comparison, of a processor; past it the answer is wrong, and `in_time` 0."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self) -> None:
        if find_spec("math_verify") is None:
            raise RewardError("reward math: math-verify is not installed: pip install 'anyformer[rewards]'")

    def grade(self, query: Query, response: Response) -> Grade:
        self.check()
        gold = text_of(query, self.column, self.kind)
        try:
            found = aside().call(f"{__name__}:verified", [gold, response.text], self.seconds, f"{__name__}:prepared")
        except AsideError:
            return Grade(0.0, {"right": 0.0, "read": 0.0, "in_time": 0.0})
        if not found["gold"]:
            raise RewardError(
                f"reward math: field {self.column!r} holds {shown(gold)}, in which math-verify finds no expression, in the "
                f"record of the prompt {query.shown}; mend it, or leave the record out"
            )
        return Grade(float(found["right"]), {"right": float(found["right"]), "read": float(found["read"]), "in_time": 1.0})


def prepared() -> None:
    """Import what takes seconds, and let it warn of nothing: time is kept outside."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    verified("1", "1")


def verified(gold: str, said: str) -> dict[str, bool]:
    """Whether an expression is found in each of two texts, and whether they are equal; in a process that may be ended."""
    from math_verify import parse, verify

    # It reads LaTeX between dollars, or in a box alone.
    wanted = parse(gold if "$" in gold or "\\boxed" in gold else f"${gold}$", parsing_timeout=None)
    given = parse(said, parsing_timeout=None)
    return {"gold": bool(wanted), "read": bool(given), "right": bool(verify(wanted, given, timeout_seconds=None))}
