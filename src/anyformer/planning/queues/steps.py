"""`StepTimes`: the seconds of a step of an engine, whoever says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class PromptChunk(NamedTuple):
    """`tokens` of a prompt that are read behind `past` tokens of it."""

    tokens: int
    past: int


class StepTimes(Protocol):
    """What a step takes, and what a text holds. `lanes`: groups of texts that an engine goes on with side by side."""

    lanes: int

    def step(self, decoding: int, cached: float, chunks: Sequence[PromptChunk], ended: int, positions: int = 1) -> float:
        """Seconds of a step that reads `positions` new tokens of each of `decoding` texts, which have `cached` tokens together,
        and some chunks of prompts, `ended` of which are the last of theirs."""
        ...

    def held(self, length: int) -> int:
        """Bytes of the decode state of a text of `length` tokens."""
        ...

    @property
    def room(self) -> float:
        """Bytes for the decode states of all texts together."""
        ...
