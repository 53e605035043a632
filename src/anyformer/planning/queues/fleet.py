"""The cheapest fleet of one kind of accelerator under which requests keep their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from anyformer.costs.figures import scaled
from anyformer.costs.hardware import Hardware
from anyformer.describe import UserError
from anyformer.planning.layout import Layout
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.outcome import Limits, QueueOutcome
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.sheet_steps import SheetSteps
from anyformer.planning.queues.simulate import Fleet, simulate
from anyformer.planning.serving import LayoutSearch

SHARE = 0.95
"""Share of the requests that keep the limits of a fleet that is enough."""
MOST_ENGINES = 1024
FEW, UNSURE = 300, 0.03
"""Requests that are tried alone first, and the share by which these may differ from all."""
NODES = 16
"""Most nodes of one engine."""


@dataclass(frozen=True)
class FleetOffer:
    """Engines under a layout, and what came of the requests."""

    hardware: Hardware
    layout: Layout
    fleet: Fleet
    outcome: QueueOutcome

    @property
    def accelerators(self) -> int:
        return self.layout.ranks * (self.fleet.engines + self.fleet.readers)

    def price(self, rate: float) -> float:
        """Dollars per million generated tokens, at `rate` per accelerator and hour: of those that are asked for, or, where
        requests come faster than they are answered, of those that are made."""
        made, requests = self.outcome.tokens_per_second, self.outcome.requests
        asked = requests.rate * float(requests.output.mean())
        return self.accelerators * rate / 3600 / (made if self.outcome.overloaded else asked) * 1e6


@dataclass(frozen=True)
class FleetSearch:
    """Requests, the architecture that answers them and its accelerators (`search`, whose length is the longest text's).

    `share` of the requests keep the limits, and requests come no faster than they are answered. `disaggregated`: engines of
    their own read the prompts.
    """

    search: LayoutSearch
    requests: ArrivingRequests
    rules: EngineRules
    limits: Limits
    share: float = SHARE
    disaggregated: bool = False
    tell: Callable[[str], None] = lambda line: None
    _steps: dict[Layout, SheetSteps] = field(default_factory=dict, compare=False, repr=False)

    def offers(self, accelerators: int | None = None) -> list[FleetOffer]:
        """An offer per size of an engine, the cheapest first; or the fleets of so many accelerators, the fastest first.

        Raises `UserError` where an engine has no room for a text, or no number of engines keeps the limits.
        """
        layouts = list(self._layouts(accelerators))
        if not layouts:
            raise UserError(self._nowhere(accelerators))
        if accelerators is not None:
            given = [self._divided(layout, accelerators // layout.ranks) for layout in layouts]
            return sorted(given, key=lambda offer: (-self._kept(offer.outcome), offer.outcome.latencies["latency"][0]))
        found, alone = list[FleetOffer](), {layout: self._alone(layout) for layout in layouts}
        for layout in layouts:
            if alone[layout].within(self.limits) < self.share - UNSURE:
                continue
            most = min((offer.accelerators for offer in found), default=None)
            offer = self._least(layout, most)
            if offer is not None:
                found.append(offer)
        if not found:
            raise UserError(self._never(max(alone.values(), key=lambda outcome: outcome.within(self.limits))))
        return sorted(found, key=lambda offer: offer.accelerators)

    def _layouts(self, accelerators: int | None) -> Iterator[Layout]:
        """The fastest layout of every size of an engine, up to a node, and of nodes where a node is too small."""
        domain, found = self.search.on.domain, False
        for count in (*(1 << i for i in range(domain.bit_length())), *(domain * nodes for nodes in range(2, NODES + 1))):
            if accelerators is not None and (accelerators % count or (self.disaggregated and accelerators < 2 * count)):
                continue
            if count > domain and found:
                return
            fitting = [layout for layout in self.search.layouts(count) if self._holds(layout)]
            if fitting:
                found = True
                yield min(fitting, key=self._loaded)

    def _holds(self, layout: Layout) -> bool:
        steps = self._times(layout)
        return 0 < steps.room >= steps.held(self.requests.longest)

    def _times(self, layout: Layout) -> SheetSteps:
        """The steps of a layout, remembered."""
        if layout not in self._steps:
            self._steps[layout] = SheetSteps(self.search, layout)
        return self._steps[layout]

    def _loaded(self, layout: Layout) -> float:
        """Seconds of a step of as many texts of mean length as have room, over their number."""
        steps = self._times(layout)
        mean = int((self.requests.prompt + self.requests.output).mean())
        rows = int(max(1, min(self.rules.places * steps.lanes, steps.room // max(steps.held(mean), 1))))
        return steps.step(rows, rows * mean, (), 0) / rows

    def _tried(self, layout: Layout, engines: int, readers: int = 0) -> FleetOffer:
        on = self.search.on
        transfer = on.network * on.efficiency.network * layout.tp if readers else float("inf")
        fleet = Fleet(self._times(layout), self.rules, engines, readers, transfer=transfer)
        outcome = simulate(fleet, self.requests)
        apart = f"{readers} that read and " if readers else ""
        self.tell(f"{layout}: {apart}{engines} engines keep {outcome.within(self.limits):.0%}")
        return FleetOffer(on, layout, fleet, outcome)

    def _kept(self, outcome: QueueOutcome) -> bool:
        return not outcome.overloaded and outcome.within(self.limits) >= self.share

    def _divided(self, layout: Layout, engines: int) -> FleetOffer:
        """The best of the fleets of so many engines: with disaggregation, of all ways to divide them."""
        if not self.disaggregated:
            return self._tried(layout, engines)
        ways = [self._tried(layout, engines - readers, readers) for readers in range(1, engines)]
        return max(ways, key=lambda offer: offer.outcome.within(self.limits) - offer.outcome.overloaded)

    def _least(self, layout: Layout, most: int | None) -> FleetOffer | None:
        """The fewest engines that keep the limits; None where there are none below `most`
        accelerators."""
        bound = MOST_ENGINES if most is None else (most - 1) // layout.ranks
        if not self.disaggregated:
            return self._fewest(bound, lambda engines: self._tried(layout, engines))
        read = self._fewest(bound - 1, lambda readers: self._tried(layout, bound, readers))
        if read is None:
            return None
        readers = read.fleet.readers
        return self._fewest(bound - readers, lambda engines: self._tried(layout, engines, readers))

    def _fewest(self, most: int, tried: Callable[[int], FleetOffer]) -> FleetOffer | None:
        """The offer of the least number up to `most` that keeps the limits: twice as many again and again, then halves."""
        low, high, best = 0, 1, None
        while best is None and high <= most:
            offer = tried(high)
            if self._kept(offer.outcome):
                best = offer
            elif high == most:
                return None
            else:
                low, high = high, min(2 * high, most)
                if high >= self.requests.count:
                    return None
        while best is not None and high - low > 1:
            middle = (low + high) // 2
            offer = tried(middle)
            if self._kept(offer.outcome):
                best, high = offer, middle
            else:
                low = middle
        return best

    def _nowhere(self, accelerators: int | None) -> str:
        on, search = self.search.on, self.search
        among = f"{accelerators:,} {on.title}" if accelerators else f"{NODES * on.domain:,} {on.title} as one engine"
        return (
            f"{scaled(search.weights)}B of weights and a text of {self.requests.longest:,} tokens have no room on {among}, "
            f"with {scaled(on.usable_memory)}B on each: give another --gpus, shorter texts, or --weights fp8"
        )

    def _alone(self, layout: Layout) -> QueueOutcome:
        """Some of the requests, one at a time."""
        few = self.requests.first(FEW)
        return simulate(Fleet(self._times(layout), self.rules), few.at_rate(few.rate * 1e-9))

    def _never(self, alone: QueueOutcome) -> str:
        """The reason why no number of engines is enough: what one request takes that comes alone."""
        ttft, tpot = (alone.quantiles(seconds, [100 * self.share])[0] for seconds in (alone.ttft, alone.tpot))
        return (
            f"no number of engines on {self.search.on.title} gives {self.share:.0%} of the requests these limits: alone, they "
            f"have their first token within {ttft:.3g} s and every further one within {tpot * 1e3:.3g} ms at best; loosen "
            "--limit-ttft or --limit-tpot, or take faster accelerators"
        )


def sweep(fleet: Fleet, requests: ArrivingRequests, points: int = 12, most: float = 1.6) -> list[QueueOutcome]:
    """The requests at so many rates, from a fifth of their own to `most` times that."""
    rates = [requests.rate * (0.2 + (most - 0.2) * i / (points - 1)) for i in range(points)]
    return [simulate(fleet, requests.at_rate(rate)) for rate in rates]
