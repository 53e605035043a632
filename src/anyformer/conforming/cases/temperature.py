"""A temperature, which changes what is drawn and not what is reported."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    text = facts.drawn("temperature", facts.plain)
    return tuple((CompletionRequest(f"temperature {t}", text, temperature=t),) for t in (0.5, 2.0))


temperature = ConformCase(
    "temperature",
    "a text at temperatures 0.5 and 2",
    "log-probabilities that are reported after temperature, not those of the model",
    7,
    _rounds,
)
