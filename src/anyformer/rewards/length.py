"""A term for the length of an answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError


class LengthReward(Reward):
    """0 up to `most` - `slack` tokens, then falling in a line to -1 at `most`, and -1 beyond: -min(1, max(0, (n - most + slack)
    / slack)).

    The soft overlong punishment of DAPO (Yu et al. 2025, arXiv 2503.14476, equation 13). With slack = 0 it is -1 beyond `most`
    alone. An answer of fewer than `least` gets -1, too.
    """

    kind: Literal["length"] = "length"
    most: Count = 256
    """L_max, the length from which on the reward is -1."""
    slack: Annotated[int, Field(ge=0)] = 64
    """L_cache, over how much it falls."""
    least: Annotated[int, Field(ge=0)] = 0
    """The fewest that are asked for."""
    unit: Literal["tokens", "words", "characters"] = "tokens"
    """What is counted."""

    @model_validator(mode="after")
    def _in_order(self) -> LengthReward:
        if self.slack >= self.most or self.least > self.most:
            raise ValueError(f"most = {self.most} should be more than slack = {self.slack} and least = {self.least}")
        return self

    @property
    def reads_tokens(self) -> bool:
        return self.unit == "tokens"

    def grade(self, query: Query, response: Response) -> Grade:
        if self.unit == "tokens" and response.text and not response.tokens:
            raise RewardError(
                f"reward length: the answer to the prompt {query.shown} has text and no tokens: set unit = 'characters' or "
                "'words'"
            )
        sizes = {"tokens": response.tokens, "words": response.text.split(), "characters": response.text}
        count = len(sizes[self.unit])
        over = count - self.most + self.slack
        term = max(-1.0, min(0.0, -over / self.slack if self.slack else -float(over > 0)))
        return Grade(-1.0 if count < self.least else term, {"length": float(count)})
