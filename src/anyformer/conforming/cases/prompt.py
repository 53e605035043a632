"""The log-probabilities of a prompt's own tokens."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    return ((CompletionRequest(f"length {facts.plain}", facts.drawn("prompt", facts.plain), whole=True),),)


prompt = ConformCase(
    "prompt",
    "the log-probabilities of a prompt, where the engine shows them",
    "logits of a prompt that belong to another position, or of only some positions",
    2,
    _rounds,
)
