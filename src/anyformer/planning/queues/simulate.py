"""A fleet of engines under requests, event by event: arrivals, ends of steps, and states on their way between engines."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from anyformer.describe import UserError
from anyformer.planning.queues.engine import EngineRules, Role, ServingEngine
from anyformer.planning.queues.outcome import QueueOutcome
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.steps import StepTimes

ARRIVES, ENDS, MOVES = 0, 1, 2
RULES = EngineRules()


@dataclass(frozen=True)
class Fleet:
    """`engines` alike; with `readers`, so many of another kind read the prompts, and send states at `transfer` bytes/s.

    A request goes to the engine with the fewest requests, the first of equal ones.
    """

    times: StepTimes
    rules: EngineRules = RULES
    engines: int = 1
    readers: int = 0
    reading_times: StepTimes | None = None
    """Of the readers, where they are other than those of the engines."""
    transfer: float = float("inf")

    def __post_init__(self) -> None:
        if self.engines < 1 or self.readers < 0:
            raise UserError(f"{self.engines} engines and {self.readers} that read prompts: give 1 or more, and 0 or more")
        if not self.transfer > 0:
            raise UserError(f"states are sent at {self.transfer:g} bytes/s: give more than 0")


def simulate(fleet: Fleet, requests: ArrivingRequests) -> QueueOutcome:
    """Every request from its arrival to its last token. Refuses requests that have no room on an engine of their own."""
    _refuse(fleet, requests)
    return _Simulation(fleet, requests).run()


def _refuse(fleet: Fleet, requests: ArrivingRequests) -> None:
    beginnings = int(requests.group[requests.shared > 0].max(initial=-1)) + 1
    common = beginnings * fleet.times.held(int(requests.shared.max())) if beginnings else 0
    needed = fleet.times.held(requests.longest) + common
    if needed > fleet.times.room:
        raise UserError(
            f"the longest request has {requests.longest:,} tokens of prompt and answer, {needed:,} bytes of decode state with "
            f"{beginnings:,} shared beginnings, and an engine has room for {fleet.times.room:,.0f}: use more accelerators per "
            "engine, or shorter requests"
        )


@dataclass
class _Simulation:
    fleet: Fleet
    requests: ArrivingRequests
    now: float = 0.0
    _events: list[tuple[float, int, int, int]] = field(default_factory=list)  # (time, kind, number, engine or request)
    _count: int = 0

    def run(self) -> QueueOutcome:
        fleet, requests = self.fleet, self.requests
        role: Role = "decodes" if fleet.readers else "both"
        engines = [ServingEngine(requests, fleet.times, fleet.rules, role, number) for number in range(fleet.engines)]
        reading, numbers = fleet.reading_times or fleet.times, range(fleet.engines, fleet.engines + fleet.readers)
        readers = [ServingEngine(requests, reading, fleet.rules, "reads", number) for number in numbers]
        entrance, self._all = readers or engines, [*engines, *readers]
        self._first, self._last = np.full(requests.count, np.nan), np.full(requests.count, np.nan)
        self._busy, self._stepping = [0.0] * len(self._all), [False] * len(self._all)
        self._steps, self._moved = 0, 0.0
        arrived = requests.arrived.tolist()
        coming, events = 0, self._events
        inside, area, since = 0, 0.0, arrived[0]
        while coming < len(arrived) or events:
            if coming < len(arrived) and (not events or arrived[coming] <= events[0][0]):
                self.now, kind, at = arrived[coming], ARRIVES, coming
                coming += 1
            else:
                self.now, _, kind, at = heapq.heappop(events)
            area += inside * (self.now - since)
            since = self.now
            if kind == ENDS:
                inside -= self._end(at)
            elif kind == ARRIVES:
                inside += 1
                self._give(at, entrance)
            else:
                self._give(at, engines)
        return QueueOutcome(
            requests, self._first, self._last, tuple(self._busy), self._steps, sum(each.read for each in self._all), area,
            self.now - arrived[0], fleet.readers,
        )  # fmt: skip

    def _later(self, seconds: float, kind: int, at: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, kind, at))

    def _give(self, request: int, among: Sequence[ServingEngine]) -> None:
        """Let a request wait at the engine with the fewest."""
        engine = among[0] if len(among) == 1 else min(among, key=lambda each: each.load)
        engine.waiting.append(request)
        self._begin(engine.number)

    def _begin(self, at: int) -> None:
        """Let an engine go on, if it stands and has work."""
        if self._stepping[at] or self._all[at].idle:
            return
        seconds = self._all[at].begin()
        self._stepping[at] = True
        self._busy[at] += seconds
        self._steps += 1
        self._later(seconds, ENDS, at)

    def _end(self, at: int) -> int:
        """What comes of a step; the requests that have left the service."""
        engine = self._all[at]
        first, ended = engine.end()
        self._stepping[at] = False
        for request in first:
            self._first[request] = self.now
        left = 0
        for request in ended:
            if engine.role == "reads" and self.requests.steps[request]:
                size = engine.times.held(int(self.requests.prompt[request]))
                self._later(size / self.fleet.transfer, MOVES, request)
            else:
                self._last[request] = self.now
                left += 1
        self._begin(at)
        return left
