"""A chat's second turn: what was read before, and more."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round

FIRST, MORE = 37, 11
"""Tokens of the first turn, which end inside a block of any usual size, and of the second."""


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    first = min(FIRST, facts.longest // 2)
    more = min(MORE, facts.longest - first - 2)
    count = max(1, min(3, facts.longest - first - more))
    text = facts.drawn("cached", first + more)
    turns = (
        CompletionRequest("turn 1", text[:first], count, cached=True),
        CompletionRequest("turn 2", text, count, cached=True),
        CompletionRequest("turn 2 again", text, count, cached=True),
    )
    return tuple((each,) for each in turns)


cached = ConformCase(
    "cached",
    "a text, then the same with more behind it, twice",
    "a cached prefix: positions that go on from a wrong number, or a state that is not that of the prefix",
    10,
    _rounds,
)
