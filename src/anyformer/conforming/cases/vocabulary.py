"""The first and the last tokens of the vocabulary."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    text = facts.drawn("vocabulary", facts.plain - 1)
    first, *_, last = (token for token in range(facts.vocabulary) if token not in facts.unusual)
    half = facts.vocabulary // 2
    edges = [first, last, *({half} - facts.unusual)]
    return tuple((CompletionRequest(f"token {token} last", (*text, token)),) for token in edges)


vocabulary = ConformCase(
    "vocabulary",
    "texts that end in the first, the middle and the last token",
    "a vocabulary that was cut, padded or divided wrongly",
    4,
    _rounds,
)
