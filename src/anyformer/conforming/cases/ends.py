"""Every token that ends a text, and one that does not."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round

MOST = 8
"""End tokens that are tried."""


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    if not facts.ends:
        raise NotAskedError("the model names no token that ends a text")
    text, count = facts.drawn("ends", facts.plain), min(3, facts.made)
    other = facts.drawn("going on", 1)[0]
    asked = [CompletionRequest(f"end token {end}", text, count, forced=end, stops=True) for end in facts.ends[:MOST]]
    if count > 1:
        asked.append(CompletionRequest(f"token {other}, no end", text, count, forced=other))
    return tuple((each,) for each in asked)


ends = ConformCase(
    "ends",
    "every end token, forced by a bias of its logit",
    "an end token that the engine does not know, or an ordinary one that it takes for one",
    6,
    _rounds,
)
