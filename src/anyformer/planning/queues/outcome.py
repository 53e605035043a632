"""What came of requests: waiting for the first token, time per token, throughput, goodput, and how busy engines were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anyformer.planning.queues.requests import ArrivingRequests

QUANTILES = (50.0, 95.0, 99.0)
WARM = 0.1
"""Share of the first requests that are left out of latencies: they find an empty service."""
FULL = 0.97
"""Busy share above which a growing queue is called one that never ends."""


@dataclass(frozen=True)
class Limits:
    """Most seconds to the first token and per further token; None for any."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def any(self) -> bool:
        return self.ttft is not None or self.tpot is not None


@dataclass(frozen=True, eq=False)
class QueueOutcome:
    """Seconds at which every request had its `first` and its `last` token, NaN where it never had.

    `busy`: seconds of each engine, the `readers` last; `read`: tokens of prompts that were computed; `area`: the number of
    requests in the service, integrated over its `span` of seconds.
    """

    requests: ArrivingRequests
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    busy: tuple[float, ...]
    steps: int
    read: int
    area: float
    span: float
    readers: int = 0

    @property
    def ttft(self) -> NDArray[np.float64]:
        """(count,) seconds from a request to its first token."""
        return self.first - self.requests.arrived

    @property
    def latency(self) -> NDArray[np.float64]:
        """(count,) seconds from a request to its last token."""
        return self.last - self.requests.arrived

    @property
    def tpot(self) -> NDArray[np.float64]:
        """(count,) seconds per token behind the first one; NaN where there is none."""
        further = self.requests.output - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(further > 0, (self.last - self.first) / further, np.nan)

    @cached_property
    def _counted(self) -> NDArray[np.bool_]:
        """(count,) whether a request came behind those that found an empty service."""
        return np.arange(self.requests.count) >= int(WARM * self.requests.count)

    def quantiles(self, seconds: NDArray[np.float64], quantiles: Sequence[float] = QUANTILES) -> tuple[float, ...]:
        """Quantiles in percent, of all but the first requests."""
        told = seconds[self._counted & ~np.isnan(seconds)]
        return tuple(np.percentile(told, quantiles)) if told.size else tuple(0.0 for _ in quantiles)

    @cached_property
    def latencies(self) -> Mapping[str, tuple[float, ...]]:
        """Median, 95th and 99th percentile in seconds of the three latencies."""
        return {name: self.quantiles(getattr(self, name)) for name in ("ttft", "tpot", "latency")}

    def within(self, limits: Limits) -> float:
        """Share of the requests, but for the first ones, that keep both limits."""
        kept = self._counted.copy()
        for limit, seconds in ((limits.ttft, self.ttft), (limits.tpot, self.tpot)):
            if limit is not None:
                kept &= ~(seconds > limit)
        return float(kept.sum() / self._counted.sum())

    def goodput(self, limits: Limits) -> float:
        """Requests a second that keep both limits (Zhong et al. 2024, DistServe, arXiv 2401.09670)."""
        return self.requests_per_second * self.within(limits)

    @property
    def requests_per_second(self) -> float:
        """Requests that were answered, over the time from the first one's arrival to the last one's end."""
        return self.requests.count / self.span

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens."""
        return int(self.requests.output.sum()) / self.span

    @property
    def utilisation(self) -> float:
        """Share of the time in which an engine computes, the mean of all."""
        return sum(self.busy) / len(self.busy) / self.span

    @property
    def inside(self) -> float:
        """Requests in the service on average: by Little's law, arrivals a second times their mean latency."""
        return self.area / self.span

    @property
    def waiting(self) -> float:
        """Seconds until a request's first token, on average, but for the first ones."""
        return float(self.ttft[self._counted].mean())

    @cached_property
    def overloaded(self) -> bool:
        """Whether requests come faster than they are answered, so that no latency here is one of a longer time: engines are
        busy without a pause, and the last third of requests wait longer than the middle third by half."""
        arriving = float(self.requests.arrived[-1] - self.requests.arrived[0])
        busy = max(self.busy) / self.span if arriving else 0.0
        middle, late = np.array_split(self.ttft, 3)[1:]
        return bool(busy > FULL and late.mean() > 1.5 * middle.mean())
