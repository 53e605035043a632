"""How fast the machine was from second to second, by the server's own clock: a time in which all steps are equally fast.

A virtual processor is a tenth slower in one second than in the next, which no table of steps knows. So the arrivals of a load
are told in seconds of an even machine, simulated there, and what comes of it is told in seconds of the clock again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.queues.calibration import expected
from benchmarks.queues.timed_server import ServedStep
from numpy.typing import NDArray

from anyformer.planning.queues.measured_steps import MeasuredSteps
from anyformer.planning.queues.outcome import QueueOutcome
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.simulate import Fleet, simulate

Times = NDArray[np.float64]
FAR = 1e4
"""Seconds before and behind a load that are told too."""


@dataclass(frozen=True, eq=False)
class EvenTime:
    """`clock`: seconds, rising; `even`: seconds of an even machine until then. Beyond them both go alike."""

    clock: Times
    even: Times

    def of(self, clock: Times) -> Times:
        """Seconds of an even machine."""
        return np.interp(clock, self.clock, self.even)

    def back(self, even: Times) -> Times:
        """Seconds of the clock."""
        return np.interp(even, self.even, self.clock)


def even_time(served: Sequence[ServedStep], steps: MeasuredSteps, begin: float) -> EvenTime:
    """Of steps as they were served, second by second from `begin` on; a second without any is taken to be an even one."""
    seconds = np.array([int(each.at - begin) for each in served])
    last = int(seconds.max(initial=0)) + 1
    slower = np.ones(last)
    for second in range(last):
        of = [each for each, at in zip(served, seconds, strict=True) if at == second]
        if of:
            slower[second] = sum(each.seconds for each in of) / sum(expected(each, steps) for each in of)
    even = np.concatenate([[0.0], np.cumsum(1 / slower)])
    clock = np.arange(last + 1.0)
    return EvenTime(np.concatenate([[-FAR], clock, [last + FAR]]), np.concatenate([[-FAR], even, [float(even[-1]) + FAR]]))


def replayed(fleet: Fleet, requests: ArrivingRequests, time: EvenTime) -> QueueOutcome:
    """The simulation of requests on a machine of that speed."""
    found = simulate(fleet, replace(requests, arrived=time.of(requests.arrived)))
    first, last = time.back(found.first), time.back(found.last)
    return replace(found, requests=requests, first=first, last=last, span=float(last.max() - requests.arrived[0]))
