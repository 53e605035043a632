"""One short text."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    return ((CompletionRequest(f"length {facts.plain}", facts.drawn("plain", facts.plain)),),)


plain = ConformCase(
    "plain",
    "one short text",
    "the computation itself: weights, norms, activations, rotary positions, a cap of logits; until it is right, other cases "
    "say little",
    0,
    _rounds,
)
