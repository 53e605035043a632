"""The first text again, after another one."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    other = CompletionRequest("another text", facts.drawn("reset", facts.plain), count=facts.made, aside=True)
    again = CompletionRequest("the first text again", facts.drawn("plain", facts.plain))
    return ((other,), (again,))


reset = ConformCase(
    "reset",
    "another text, then the first one again",
    "a state that an earlier request left: a recurrent state or a slot of the cache that is not cleared",
    1,
    _rounds,
)
