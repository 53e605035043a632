"""Texts of unequal lengths at once."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    lengths = sorted({1, 2, facts.plain // 2, facts.plain - 1, facts.plain} - {0})
    count = min(4, facts.made)
    return (tuple(CompletionRequest(f"length {n}", facts.drawn(f"batch {n}", n), count) for n in lengths),)


batch = ConformCase(
    "batch",
    "texts of unequal lengths at once",
    "padding that is attended to, or rows of a batch that are mixed up",
    9,
    _rounds,
)
