"""A term for answers in named sections."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.rewards.reward import Grade, Query, Response, Reward


class FormatReward(Reward):
    """1 where the answer is `<think>...</think> <answer>...</answer>`: every section once, in order, none empty, and nothing
    but blanks around them; else 0.

    As DeepSeek-R1's (arXiv 2501.12948, section 2.2.2). `parts`: of every section, whether it is opened and closed once.
    """

    kind: Literal["format"] = "format"
    sections: Annotated[tuple[Annotated[str, Field(pattern=r"^[\w-]+$")], ...], Field(min_length=1)] = ("think", "answer")
    """Their names, in order."""
    opened: bool = False
    """Whether the prompt has opened the first section already."""

    @model_validator(mode="after")
    def _differ(self) -> FormatReward:
        if len(set(self.sections)) < len(self.sections):
            raise ValueError(f"sections = {list(self.sections)} has a name twice: every section stands once")
        return self

    def grade(self, query: Query, response: Response) -> Grade:
        text = f"<{self.sections[0]}>{response.text}" if self.opened else response.text
        parts = {name: float(text.count(f"<{name}>") == text.count(f"</{name}>") == 1) for name in self.sections}
        return Grade(float(all(parts.values()) and self._in_order(text)), parts)

    def _in_order(self, text: str) -> bool:
        """Whether each section begins where the one before ended, but for blanks; each mark is there once."""
        rest = text
        for name in self.sections:
            before, _, behind = rest.partition(f"<{name}>")
            inside, end, rest = behind.partition(f"</{name}>")
            if before.strip() or not end or not inside.strip():
                return False
        return not rest.strip()
