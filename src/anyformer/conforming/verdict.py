"""What the answers of an engine say: per case whether it departs, from where on, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from anyformer.conforming.cases import BY_NAME
from anyformer.conforming.gaps import Bound, PlaceGap, place_gaps, summed
from anyformer.conforming.golden import GoldenCase, GoldenRequest
from anyformer.conforming.request import Completion


@dataclass(frozen=True)
class CaseFigures:
    """Of all that was compared in a case: the largest and the mean difference of log-probabilities in nats, the largest
    divergence of a place, and of `told` places whose likeliest token rounding does not decide those at which it is the same."""

    compared: int
    largest: float
    mean: float
    divergence: float
    agreed: int
    told: int

    @classmethod
    def of(cls, gaps: Sequence[PlaceGap], bound: Bound) -> CaseFigures:
        """The figures of gaps; rounding decides nothing where the likeliest token leads by more than two bounds."""
        both, told = summed(gaps), [gap for gap in gaps if gap.margin > 2 * bound.largest]
        divergence = max((gap.divergence for gap in gaps), default=0.0)
        agreed = sum(gap.same for gap in told)
        return cls(sum(gap.count for gap in gaps), both.largest, both.mean, divergence, agreed, len(told))


@dataclass(frozen=True)
class CaseDeparture:
    """The first request of a case whose answer departs, the place in it, and what is wrong there; `length`: of its prompt."""

    where: str
    place: str
    problem: str
    length: int


@dataclass(frozen=True)
class CaseVerdict:
    """A case's answer. `bound`: what rounding explains; `departures`: the requests that depart, of all that were `asked`."""

    name: str
    bound: Bound
    figures: CaseFigures
    departures: tuple[CaseDeparture, ...] = ()
    asked: int = 0
    skipped: str | None = None

    @property
    def state(self) -> Literal["right", "departs", "not asked"]:
        return "not asked" if self.skipped is not None else "departs" if self.departures else "right"


@dataclass(frozen=True)
class ConformReport:
    """All cases of an engine; `engine` and `model` in words."""

    engine: str
    model: str
    arithmetic: str
    cases: tuple[CaseVerdict, ...]

    @cached_property
    def departing(self) -> tuple[CaseVerdict, ...]:
        return tuple(case for case in self.cases if case.state == "departs")

    @property
    def conforms(self) -> bool:
        return not self.departing

    @property
    def first(self) -> CaseVerdict | None:
        """Of the cases that depart the one that says what is wrong: of the earliest stage, and there of the shortest text."""
        return min(
            self.departing, key=lambda case: (BY_NAME[case.name].stage, min(d.length for d in case.departures)), default=None
        )


def case_verdict(case: GoldenCase, answers: Sequence[Sequence[Completion]], vocabulary: int) -> CaseVerdict:
    """The verdict on the answers to the rounds of a case."""
    both = [pair for round in zip(case.rounds, answers, strict=True) for pair in zip(*round, strict=True)]
    compared = [(golden, answer) for golden, answer in both if not golden.request.aside]
    asked = [golden for golden, _ in compared]
    gaps: list[PlaceGap] = []
    departures: list[CaseDeparture] = []
    for golden, answer in compared:
        found = list(_gaps(golden, answer))
        gaps += found
        departures += next(([each] for each in _departures(golden, answer, found, case.bound, vocabulary)), [])
    if not gaps and not any(golden.request.forced is not None for golden in asked):
        return CaseVerdict(
            case.name, case.bound, CaseFigures.of((), case.bound), skipped="the engine shows nothing that it compares"
        )
    figures = CaseFigures.of(gaps, case.bound)
    if not departures and figures.mean > case.bound.mean:
        departures.append(_on_average(asked, figures, case.bound))
    return CaseVerdict(case.name, case.bound, figures, tuple(departures), len(asked))


def skipped_verdict(case: GoldenCase, reason: str) -> CaseVerdict:
    """The verdict on a case that is not asked."""
    return CaseVerdict(case.name, case.bound, CaseFigures.of((), case.bound), skipped=reason)


def _gaps(golden: GoldenRequest, answer: Completion) -> Iterable[PlaceGap]:
    if golden.request.forced is not None:
        return ()
    found = list(place_gaps(golden.completion, answer))
    # Where the log-probabilities of a prompt are asked for, what is made of it is what other cases ask.
    return [gap for gap in found if "made" not in gap.place] if golden.request.whole else found


def _departures(
    golden: GoldenRequest, answer: Completion, gaps: Sequence[PlaceGap], bound: Bound, vocabulary: int
) -> Iterator[CaseDeparture]:
    """What is wrong with an answer, the first thing first."""
    request = golden.request

    def departure(place: str, problem: str) -> CaseDeparture:
        return CaseDeparture(request.where, place, problem, request.length)

    if request.text is not None and answer.read is not None and answer.read != request.length:
        yield departure(
            "tokens", f"the engine reads {answer.read} tokens of it, and the model's tokenizer makes {request.length}"
        )
    if request.forced is not None:
        if problem := _ending(request.stops, answer, request.count):
            yield departure("end", problem)
        return
    places = [place for place in (*answer.prompt, *answer.made) if place is not None]
    beyond = [token for place in places for token in place.top if token >= vocabulary]
    if beyond:
        yield departure("vocabulary", f"the engine gives token {beyond[0]}, and the vocabulary has {vocabulary} tokens")
    for gap in gaps:
        if gap.largest > bound.largest:
            amount = "no number" if math.isinf(gap.largest) else f"off by {gap.largest:.2g} nats"
            yield departure(gap.place, f"{amount} (bound {bound.largest:.2g})")
    if answer.prompt and len(answer.prompt) != len(golden.completion.prompt):
        shown = (
            f"the engine shows {len(answer.prompt)} places of the prompt, and {len(golden.completion.prompt)} follow its first"
        )
        yield departure("prompt", f"{shown} token")
    if not answer.made and not request.whole:
        yield departure("token 1 made", "the engine makes no token")


def _ending(stops: bool, answer: Completion, count: int) -> str | None:
    """What is wrong with how a text ended after a token was forced."""
    over = answer.stopped if answer.stopped is not None else len(answer.made) < count
    if stops and not over:
        return "the engine goes on after it"
    return "the engine ends the text there" if over and not stops else None


def _on_average(asked: Sequence[GoldenRequest], figures: CaseFigures, bound: Bound) -> CaseDeparture:
    return CaseDeparture(
        "all requests",
        "every place",
        f"off by {figures.mean:.2g} nats on average (bound {bound.mean:.2g})",
        max(golden.request.length for golden in asked),
    )
