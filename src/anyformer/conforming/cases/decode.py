"""Tokens made one by one, and the same tokens read at once."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    text, made = facts.drawn("decode", facts.plain), facts.made
    generated = CompletionRequest(f"{made} tokens made", text, count=made)
    steps = sorted({1, made // 2, made - 1} - {0})
    return ((generated,), *((CompletionRequest(f"{n} of them read", text, read=n),) for n in steps))


decode = ConformCase(
    "decode",
    "tokens made one by one, then read as a prompt",
    "decoding: the position of a new token, or a cache that is written or read otherwise than in prefill, as in 8 bits",
    3,
    _rounds,
)
