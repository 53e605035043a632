"""Prompts that an engine reads in pieces."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    chunk = facts.chunk
    if chunk + 1 >= facts.longest:
        raise NotAskedError(
            f"chunks of {chunk} tokens are as long as the {facts.longest} read here; start the engine with smaller ones and "
            "say so with --chunk"
        )
    text = facts.drawn("chunked", 2 * chunk + 3)
    lengths = [n for n in (chunk - 1, chunk, chunk + 1, 2 * chunk + 3) if n < facts.longest]
    return tuple((CompletionRequest(f"length {n}", text[:n]),) for n in lengths)


chunked = ConformCase(
    "chunked",
    "prompts of a chunk's length, one token less and more, and more than two chunks",
    "prefill in pieces: a piece that forgets those before it, or counts its positions anew",
    8,
    _rounds,
)
