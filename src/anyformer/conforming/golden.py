"""Golden vectors: what an engine must answer to every request of the cases, and what rounding explains of a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyformer.conforming.cases import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.gaps import Bound, PlaceGap, place_gaps, summed
from anyformer.conforming.reference import Reference
from anyformer.conforming.request import Completion, CompletionRequest

FLOOR = Bound(largest=1e-3, mean=1e-4)
"""Differences, in nats, that engines in fp32 have by the order of their sums alone."""
FACTOR = 4.0
"""How many times the difference that our own rounding makes an engine's may be: it rounds in other places."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class GoldenRequest:
    """A request with the tokens that it sends, and its completion by the model."""

    request: CompletionRequest
    completion: Completion


@dataclass(frozen=True)
class GoldenCase:
    """A case's requests, round by round, and its bound; or why it is not asked."""

    name: str
    rounds: tuple[tuple[GoldenRequest, ...], ...] = ()
    bound: Bound = FLOOR
    skipped: str | None = None


@dataclass(frozen=True)
class GoldenVectors:
    """All cases of a model. `model`: its name, for people; `arithmetic`: what the bounds were measured in, in words."""

    model: str
    vocabulary: int
    arithmetic: str
    cases: tuple[GoldenCase, ...]


def golden_cases(
    cases: Sequence[ConformCase],
    facts: ModelFacts,
    reference: Reference,
    rounded: Reference | None = None,
    fixed: float | None = None,
    tell: Tell = lambda line: None,
) -> tuple[GoldenCase, ...]:
    """The golden vectors of `cases`.

    `rounded`: the model in the arithmetic of the engine, whose differences from `reference` bound the engine's: `FACTOR` times
    the largest and the mean one of a case, at least `FLOOR`; None: `FLOOR`. `fixed`: the largest difference instead, in nats.
    """
    found = []
    for number, case in enumerate(cases, 1):
        tell(f"golden vectors {number}/{len(cases)}: {case.name}")
        found.append(_golden_case(case, facts, reference, rounded, fixed))
    return tuple(found)


def _golden_case(
    case: ConformCase, facts: ModelFacts, reference: Reference, rounded: Reference | None, fixed: float | None
) -> GoldenCase:
    try:
        asked = case.rounds(facts)
    except NotAskedError as reason:
        return GoldenCase(case.name, skipped=str(reason))
    rounds = tuple(tuple(_golden(request, reference) for request in each) for each in asked)
    if fixed is not None:
        return GoldenCase(case.name, rounds, Bound(fixed, fixed))
    return GoldenCase(case.name, rounds, FLOOR if rounded is None else _measured(rounds, rounded))


def _golden(request: CompletionRequest, reference: Reference) -> GoldenRequest:
    read = reference.continued(request.tokens, request.read) if request.read else ()
    sent = replace(request, tokens=(*request.tokens, *read), read=0)
    return GoldenRequest(sent, reference.completion(sent))


def _measured(rounds: Sequence[Sequence[GoldenRequest]], rounded: Reference) -> Bound:
    """What rounding alone makes of the same texts."""
    gaps: list[PlaceGap] = []
    for each in (golden for requests in rounds for golden in requests):
        made = [place.token for place in each.completion.made]
        gaps += place_gaps(each.completion, rounded.completion(each.request, made))
    found = summed(gaps)
    return Bound(max(FLOOR.largest, FACTOR * found.largest), max(FLOOR.mean, FACTOR * found.mean))
