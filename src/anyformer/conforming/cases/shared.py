"""Texts that begin alike, at once, and texts that nearly do."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round

BLOCKS = (16, 4)
"""Tokens of a block: the usual ones, and where texts are too short for three of them a few."""


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    block = next((block for block in BLOCKS if 4 * block + 8 <= facts.longest), None)
    if block is None:
        raise NotAskedError(f"the {facts.longest} tokens that are read at most are fewer than four blocks")
    whole = 3 * block
    prefix = facts.drawn("shared", whole + block // 3)
    first = CompletionRequest("the prefix", prefix, cached=True)
    tails = [facts.drawn(f"tail {n}", n) for n in (1, 2, block // 2, block)]
    together = [CompletionRequest(f"a tail of length {len(tail)}", prefix + tail, cached=True) for tail in tails]
    changed = [
        CompletionRequest(f"token {place + 1} of the prefix changed", _changed(prefix, place, facts) + tails[1], cached=True)
        for place in (whole - 1, block - 1, 0)
    ]
    return ((first,), tuple(together), tuple(changed))


def _changed(tokens: tuple[int, ...], place: int, facts: ModelFacts) -> tuple[int, ...]:
    """Another token at a place."""
    other = next(token for token in facts.drawn(f"changed {place}", 64) if token != tokens[place])
    return (*tokens[:place], other, *tokens[place + 1 :])


shared = ConformCase(
    "shared",
    "texts with one prefix, which ends inside a block, at once, and with a prefix that differs in one token",
    "blocks of the cache that are shared although they differ, or a shared block that is written to",
    11,
    _rounds,
)
