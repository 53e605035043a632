"""The way of a request to the thread that computes, and of its tokens back: what a simulation of that thread does not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.queues.client import Answered
from benchmarks.queues.server import CHUNK, PLACES
from numpy.typing import NDArray

from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.measured_steps import MeasuredSteps
from anyformer.planning.queues.outcome import QueueOutcome
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.simulate import Fleet, simulate

RULES = EngineRules(places=PLACES, budget=CHUNK, apart=True, padded=True)
"""Those of the server."""


@dataclass(frozen=True)
class Ways:
    """Seconds: `alone` of a request that finds the server idle; `beside` of one that finds others, with whose steps the reading
    of what it asks shares a core."""

    alone: float
    beside: float

    def on(self, outcome: QueueOutcome) -> QueueOutcome:
        """What a client sees of a simulated outcome."""
        more = np.where(finding_others(outcome), self.beside, self.alone)
        return replace(outcome, first=outcome.first + more, last=outcome.last + more)


def finding_others(outcome: QueueOutcome) -> NDArray[np.bool_]:
    """(count,): which requests come while another is under way."""
    latest = np.maximum.accumulate(outcome.last)
    return np.append(False, latest[:-1] > outcome.requests.arrived[1:])


def came(answered: Sequence[Answered]) -> ArrivingRequests:
    """The requests of some answers, in the order of these, which is that of sending."""
    facts = [(each.prompt, len(each.times), 0, 0, len(each.times) - 1) for each in answered]
    return ArrivingRequests(np.array([each.sent for each in answered]), *np.array(facts, dtype=np.int64).T)


def foretold(answered: Sequence[Answered], steps: MeasuredSteps) -> QueueOutcome:
    """The simulation of requests as they were sent."""
    return simulate(Fleet(steps, RULES), came(answered))


def ways(sittings: Sequence[Sequence[Answered]], steps: MeasuredSteps) -> Ways:
    """Of the first tokens of some sittings what the simulation leaves out, in the median of each kind of request."""
    left, others = list[float](), list[bool]()
    for sitting in sittings:
        answered = sorted(sitting, key=lambda each: each.sent)
        found = foretold(answered, steps)
        left += [each.first - each.sent - ttft for each, ttft in zip(answered, found.ttft, strict=True)]
        others += finding_others(found).tolist()
    kinds = {kind: [each for each, other in zip(left, others, strict=True) if other is kind] for kind in (False, True)}
    return Ways(*(max(0.0, float(np.median(each))) if each else 0.0 for each in kinds.values()))
