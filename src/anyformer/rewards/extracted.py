"""Another reward, of a part of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import model_validator

from anyformer.rewards.exact_match import ExactMatchReward
from anyformer.rewards.expressions import Expression, found
from anyformer.rewards.reward import NO_JUDGES, Grade, Judge, Pair, Query, Response, Reward


class ExtractedReward(Reward):
    """What another reward, `of`, gives the part of the answer that a group of a regular expression holds.

    `pattern = '(?s)<answer>(.*?)</answer>'` or `'####\\s*(\\S+)'`: its first group, or all that it matches if it has none. An
    answer without such a part gets `missing`, and is not given to `of`; the part `extracted` says of how many there was one.
    """

    kind: Literal["extracted"] = "extracted"
    pattern: Expression = r"(?s)<answer>(.*?)</answer>"
    """The expression, of the package `regex`."""
    which: Literal["first", "last"] = "last"
    """Which match counts where there are several."""
    of: Reward = ExactMatchReward()
    """The reward of the part."""
    missing: float = 0.0
    """The reward of an answer without it."""

    @model_validator(mode="after")
    def _of_text(self) -> ExtractedReward:
        if self.of.reads_tokens:
            raise ValueError(f"of.kind = {self.of.kind!r} reads tokens, and a part of an answer is text: choose another reward")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    @property
    def models(self) -> tuple[str, ...]:
        return self.of.models

    def check(self) -> None:
        self.of.check()

    def grade(self, query: Query, response: Response) -> Grade:
        return self.grades([(query, response)])[0]

    def grades(self, pairs: Sequence[Pair], judges: Mapping[str, Judge] = NO_JUDGES) -> list[Grade]:
        parts = [self._part(response.text) for _, response in pairs]
        asked = [(query, replace(response, text=part, tokens=(), names=()))
                 for (query, response), part in zip(pairs, parts, strict=True) if part is not None]  # fmt: skip
        given = iter(self.of.grades(asked, judges) if asked else ())
        found = [Grade(self.missing) if part is None else next(given) for part in parts]
        return [
            Grade(grade.total, {**grade.parts, "extracted": float(part is not None)})
            for grade, part in zip(found, parts, strict=True)
        ]

    def _part(self, text: str) -> str | None:
        match, _ = found(self.pattern, text, last=self.which == "last")
        return None if match is None else match[1 if match.re.groups else 0]
