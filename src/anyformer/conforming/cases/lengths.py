"""Texts of one token on, shorter than whatever changes with length."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round

LENGTHS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
"""Beside powers of two, which sizes of blocks are."""


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    text = facts.drawn("lengths", max(LENGTHS))
    return tuple((CompletionRequest(f"length {n}", text[:n]),) for n in LENGTHS if n <= min(facts.edge, facts.longest - 1))


lengths = ConformCase(
    "lengths",
    "texts of 1 to 65 tokens",
    "positions, or a kernel that drops what does not fill a block",
    2,
    _rounds,
)
