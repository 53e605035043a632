"""`MeasuredSteps`: steps of an engine as they were measured, a table of decoding and a curve of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyformer.describe import UserError
from anyformer.planning.queues.steps import PromptChunk


@dataclass(frozen=True)
class MeasuredSteps:
    """`decoding`: seconds of a step by the number of texts, one row per length of `keys`; `prompts`: seconds to read a prompt
    of so many tokens, alone and in the engine's own chunks. Between what was measured it is a straight line, and so beyond.

    `texts`: texts of each column; `lengths`: tokens of each prompt. An engine has so many places and no other limit.
    """

    texts: tuple[int, ...]
    keys: tuple[int, ...]
    decoding: tuple[tuple[float, ...], ...]
    lengths: tuple[int, ...]
    prompts: tuple[float, ...]
    lanes: int = 1
    room: float = float("inf")

    def __post_init__(self) -> None:
        for name, at in (("texts", self.texts), ("keys", self.keys), ("lengths", self.lengths)):
            if not at or list(at) != sorted(set(at)) or at[0] < 1:
                raise UserError(f"measured steps: {name} are {at}, and should rise from 1 or more")
        rows = {len(row) for row in self.decoding}
        if len(self.decoding) != len(self.keys) or rows != {len(self.texts)} or len(self.prompts) != len(self.lengths):
            raise UserError("measured steps: give a row of seconds per length of keys, as long as texts, and a time per prompt")

    def step(self, decoding: int, cached: float, chunks: Sequence[PromptChunk], ended: int, positions: int = 1) -> float:
        seconds = sum(self.prompt(chunk.past + chunk.tokens) - self.prompt(chunk.past) for chunk in chunks)
        if decoding:
            at = [_line(decoding, self.texts, row) for row in self.decoding]
            seconds += _line(cached / decoding, self.keys, at)
        return seconds

    def held(self, length: int) -> int:
        return 0

    def prompt(self, tokens: int) -> float:
        """Seconds to read a prompt of so many tokens, alone."""
        return _line(tokens, self.lengths, self.prompts) if tokens else 0.0


def _line(at: float, points: Sequence[int], values: Sequence[float]) -> float:
    """The value at a point, by straight lines; outside by those at the ends."""
    if len(points) == 1:
        return values[0]
    i = int(np.searchsorted(points, at, side="right")) - 1
    i = min(max(i, 0), len(points) - 2)
    share = (at - points[i]) / (points[i + 1] - points[i])
    return values[i] + share * (values[i + 1] - values[i])
