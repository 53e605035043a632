"""Golden vectors: what an engine must answer to every request of the cases, and what rounding explains of a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from anyformer.conforming.cases import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.gaps import Bound, PlaceGap, place_gaps, summed
from anyformer.conforming.reference import Reference
from anyformer.conforming.request import Completion, CompletionRequest

FLOOR = Bound(largest=2e-3, mean=5e-4)
"""Differences, in nats, of right engines in fp32: 1e-5 by the order of sums, the rest where a GELU is looked up in fp16."""
FACTOR = 8.0
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
    the largest and the mean one of a case, or of the middle one of all cases if that is more, at least `FLOOR`; None: `FLOOR`.
    `fixed`: a bound in nats instead.
    """
    found = []
    for number, case in enumerate(cases, 1):
        tell(f"golden vectors {number}/{len(cases)}: {case.name}")
        found.append(_golden_case(case, facts, reference))
    if fixed is not None:
        return tuple(replace(case, bound=Bound(fixed, fixed)) for case in found)
    return tuple(found) if rounded is None else _bounded(found, rounded, tell)


def _golden_case(case: ConformCase, facts: ModelFacts, reference: Reference) -> GoldenCase:
    try:
        asked = case.rounds(facts)
    except NotAskedError as reason:
        return GoldenCase(case.name, skipped=str(reason))
    return GoldenCase(case.name, tuple(tuple(_golden(request, reference) for request in each) for each in asked))


def _golden(request: CompletionRequest, reference: Reference) -> GoldenRequest:
    read = reference.continued(request.tokens, request.read) if request.read else ()
    sent = replace(request, tokens=(*request.tokens, *read), read=0)
    return GoldenRequest(sent, reference.completion(sent))


def _bounded(cases: Sequence[GoldenCase], rounded: Reference, tell: Tell) -> tuple[GoldenCase, ...]:
    """The cases with bounds of what rounding alone makes of the same texts."""
    measured = {}
    for case in cases:
        if case.rounds:
            tell(f"measuring what rounding makes of {case.name}")
            measured[case.name] = _measured(case.rounds, rounded)
    if not measured:
        return tuple(cases)
    found = measured.values()
    middle = Bound(median(each.largest for each in found), median(each.mean for each in found))
    return tuple(
        replace(case, bound=_at_least(measured[case.name], middle)) if case.name in measured else case for case in cases
    )


def _at_least(found: Bound, middle: Bound) -> Bound:
    """The bound of a case, whose few places may have come out well."""
    largest, mean = max(found.largest, middle.largest), max(found.mean, middle.mean)
    return Bound(max(FLOOR.largest, FACTOR * largest), max(FLOOR.mean, FACTOR * mean))


def _measured(rounds: Sequence[Sequence[GoldenRequest]], rounded: Reference) -> Bound:
    """The differences that rounding makes."""
    gaps: list[PlaceGap] = []
    for each in (golden for requests in rounds for golden in requests):
        made = [place.token for place in each.completion.made if place is not None]
        gaps += place_gaps(each.completion, rounded.completion(each.request, made))
    return summed(gaps)
