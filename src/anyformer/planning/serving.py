"""Serving: the number of accelerators at which a token costs least, the fastest layout on them, and the price of a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from anyformer.costs.figures import scaled
from anyformer.costs.hardware import Hardware
from anyformer.costs.inference import DecodeState, decode_state, weight_bytes
from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import timed
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.operations import Shape, StateBytes
from anyformer.plan import Plan
from anyformer.planning.dealing import stages
from anyformer.planning.divided import nothing_saved
from anyformer.planning.layout import MOST_RANKS, DividedSizes, Layout, bounds, divisors
from anyformer.planning.serving_rank import ServingRank
from anyformer.planning.stages import PlannedStage, UnitRow, place, row_of
from anyformer.quantising import FORMATS

BEYOND = 4
"""Multiple of the fewest accelerators that hold a model up to which a lower price is looked for."""


@dataclass(frozen=True)
class Service:
    """An architecture served to `users` at once, each with `length` tokens in the cache, under a layout that fits.

    `least`: the fewest accelerators that hold it; `fullest`: bytes of the fullest rank; `step`: seconds in which every user
    gets one token; `sending`: seconds of it in which ranks wait for one another; `prefill`: seconds of a prompt of `length`.
    """

    architecture: Architecture
    hardware: Hardware
    layout: Layout
    users: int
    length: int
    format: str
    cache_format: str
    weights: int
    cache: DecodeState
    fullest: int
    step: float
    sending: float
    prefill: float
    least: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all users together."""
        return self.users / self.step

    @property
    def prompt_tokens_per_second(self) -> float:
        """Tokens of prompts, every replica and every stage at work on a prompt of its own."""
        return self.layout.dp * self.layout.pp * self.length / self.prefill

    def price(self, rate: float) -> float:
        """Price of a million generated tokens, at `rate` per accelerator and hour."""
        return self._hourly(rate) / 3600 / self.tokens_per_second * 1e6

    def prompt_price(self, rate: float) -> float:
        """Price of a million tokens of prompts."""
        return self._hourly(rate) / 3600 / self.prompt_tokens_per_second * 1e6

    def _hourly(self, rate: float) -> float:
        return self.layout.ranks * rate


def serve(
    architecture: Architecture,
    *,
    users: int,
    length: int,
    hardware: str | Hardware = "h100",
    accelerators: int | None = None,
    format: str = "bf16",
    plan: Plan | None = None,
) -> Service:
    """The fastest layout on the number of accelerators at which a token costs least, or on the number given.

    Counts go from the fewest that hold weights and caches to `BEYOND` times as many, beyond one node in whole nodes. Searched:
    dp replicas of attention with users of their own, tp up to a node, pp up to a layer per stage; experts are divided over all
    dp x tp ranks of a stage. Raises `UserError` where nothing fits.
    """
    on = hardware_of(hardware)
    search = LayoutSearch(architecture, users, length, on, format, on.resolved(plan or Plan()))
    check_generates(architecture)
    counts = [accelerators] if accelerators else _beyond(search.least, on.domain)
    services = [service for count in counts if (service := search.fastest(count))]
    if not services:
        raise UserError(_refusal(search, accelerators))
    return min(services, key=lambda service: service.price(1.0))


def check_generates(architecture: Architecture) -> None:
    """Refuse what generates no tokens."""
    if architecture.decoder is None:
        raise UserError(f"generates no tokens, so there is nothing to serve: it is {architecture.shape_of_model}")


def _counts(domain: int) -> Iterator[int]:
    """Numbers of accelerators: from 1 to those of a node, then of whole nodes."""
    yield from range(1, domain)
    yield from range(domain, MOST_RANKS + 1, domain)


def _beyond(least: int | None, domain: int) -> list[int]:
    """The least, then up to `BEYOND` times as many in steps of a power of two of nodes, so that they are few."""
    if least is None:
        return []
    nodes = 1 << max(0, (least // domain // 4).bit_length() - 1)
    most = min(BEYOND * least, MOST_RANKS)
    return [
        least,
        *(count for count in _counts(domain) if least < count <= most and (count < domain or count // domain % nodes == 0)),
    ]


def _refusal(search: LayoutSearch, accelerators: int | None) -> str:
    """The reason why no layout fits: too little memory, or no way to divide the model among so many accelerators."""
    on, ranks = search.on, accelerators or MOST_RANKS
    if ranks * on.usable_memory >= search.total and (near := search.near(ranks)):
        use = " or ".join(f"{count:,}" for count in near)
        return f"no layout that divides the model among {ranks:,} {on.title} fits: use {use}"
    more = "" if search.least is None else f"--gpus {search.least:,} or more, "
    return (
        f"{scaled(search.weights)}B of weights and {scaled(search.state.total)}B of cache do not fit on {ranks:,} {on.title} "
        f"with {scaled(on.usable_memory)}B per accelerator: give {more}fewer --users or a shorter --length"
    )


@dataclass(frozen=True)
class LayoutSearch:
    """Layouts that serve an architecture, and the figures that they share."""

    architecture: Architecture
    users: int
    length: int
    on: Hardware
    format: str
    plan: Plan

    @cached_property
    def weights(self) -> int:
        return weight_bytes(self.architecture, FORMATS[self.format])

    @cached_property
    def state(self) -> DecodeState:
        return decode_state(self.architecture, batch=self.users, context=self.length, plan=self.plan)

    @property
    def total(self) -> int:
        """Bytes of weights and caches."""
        return self.weights + self.state.total

    @cached_property
    def least(self) -> int | None:
        """The fewest accelerators that hold weights and caches, None where `MOST_RANKS` do not."""
        return next((count for count in _counts(self.on.domain) if self.fitting(count)), None)

    def near(self, ranks: int) -> list[int]:
        """The nearest numbers of accelerators below and above `ranks` that hold weights and caches."""
        counts = list(_counts(self.on.domain))
        below = next((count for count in reversed(counts) if count < ranks and self.fitting(count)), None)
        above = next((count for count in counts if count > ranks and self.fitting(count)), None)
        return [count for count in (below, above) if count is not None]

    def fitting(self, count: int) -> list[Layout]:
        """The layouts of `count` accelerators whose fullest rank fits."""
        if count * self.on.usable_memory < self.total:
            return []
        return [layout for layout in self.layouts(count) if self.fullest(layout) <= self.on.usable_memory]

    def fastest(self, count: int) -> Service | None:
        """The fitting layout with the shortest step."""
        return min(map(self.service, self.fitting(count)), key=lambda service: service.step, default=None)

    @cached_property
    def row(self) -> UnitRow:
        """Weights and collectives of each layer, which no length changes."""
        return row_of(self.architecture.but(mtp=None), 16, self.plan, saving=nothing_saved)

    @cached_property
    def bounds(self) -> DividedSizes:
        return bounds(self.architecture)

    @cached_property
    def compression(self) -> float:
        """Bytes of weights in their format over bytes in 16 bits."""
        return self.weights / weight_bytes(self.architecture, FORMATS["bf16"])

    @cached_property
    def rank(self) -> ServingRank:
        return ServingRank(self.row, self.on, self.compression)

    @cached_property
    def per_user(self) -> Mapping[str, Sequence[StateBytes]]:
        """Decode state of one user, by the name of the unit that holds it."""
        return self._states(self.length)

    def _states(self, length: int) -> Mapping[str, Sequence[StateBytes]]:
        source, states = self.length if self.architecture.two_inputs else 0, dict[str, list[StateBytes]]()
        for node in self.architecture.cost(Shape(past=length - 1, source=source), self.plan).nodes():
            if node.tally.own_state is not None:
                states.setdefault(place(node.address, self.architecture), []).append(node.tally.own_state)
        return states

    def held(self, layout: Layout, length: int) -> int:
        """Bytes of the decode state of one text of `length` tokens on one rank of every stage."""
        return sum(_shared(state, layout) for states in self._states(length).values() for state in states)

    def layouts(self, count: int) -> Iterator[Layout]:
        """Every layout over `count` ranks that the architecture allows."""
        for tp in divisors(count, self.on.domain):
            if self.bounds.indivisible(tp) or self.bounds.width % tp:
                continue
            for pp in divisors(count // tp, self.bounds.depth):
                dp = count // tp // pp
                if dp <= self.users:
                    ep = min(dp * tp, *self.bounds.experts) if self.bounds.experts else 1
                    yield Layout(dp=dp, tp=tp, pp=pp, ep=ep)

    def fullest(self, layout: Layout) -> int:
        """Bytes of the fullest rank: its share of the weights, and the caches of its users."""
        users = -(-self.users // layout.dp)
        return max(self.of_stage(stage, layout, users) for stage in stages(self.row, layout.pp, 1))

    def of_stage(self, stage: PlannedStage, layout: Layout, users: int) -> int:
        """Bytes of a rank of a stage."""
        numbers = stage.parameters.dense(layout.tp) + -(-stage.parameters.experts // layout.ep)
        return round(2 * self.compression * numbers) + users * self.cache_of(stage, layout)

    def cache_of(self, stage: PlannedStage, layout: Layout) -> int:
        """Bytes of one user's decode state on a rank of a stage."""
        return sum(_shared(state, layout) for unit in stage.units for state in self.per_user.get(unit.name, ()))

    def service(self, layout: Layout) -> Service:
        users = -(-self.users // (layout.dp * layout.pp))
        computing, sending = self._seconds(layout, "decode", users, users)
        prompt = sum(self._seconds(layout, "prefill", 1, self.length))
        return Service(
            self.architecture,
            self.on,
            layout,
            self.users,
            self.length,
            self.format,
            self.plan.number,
            self.weights,
            self.state,
            self.fullest(layout),
            computing + sending,
            sending,
            prompt,
            min(layout.ranks, self.least or layout.ranks),
        )

    def _seconds(self, layout: Layout, mode: Mode, batch: int, tokens: int) -> tuple[float, float]:
        """Seconds of computing and of sending while `batch` rows of each replica, `tokens` in all, pass all stages."""
        work = [kernel for kernel in self._work(mode, batch) if kernel.share != "experts"]
        work += [kernel for kernel in self._work(mode, batch * layout.dp) if kernel.share == "experts"]
        parts = (timed(self.rank.share(kernel, layout), self.on)[0] * kernel.layers for kernel in work)
        return sum(parts), self.rank.sending(layout, tokens)

    @cached_property
    def _work(self) -> Callable[[Mode, int], list[Kernel]]:
        """The kernels of a mode and a batch, remembered."""
        source = self.length if self.architecture.two_inputs else 0

        @cache
        def work(mode: Mode, batch: int) -> list[Kernel]:
            length, past = (1, self.length) if mode == "decode" else (self.length, 0)
            return kernels(self.architecture, Shape(batch=batch, length=length, past=past, source=source), self.plan, mode)

        return work


def _shared(state: StateBytes, layout: Layout) -> int:
    """Bytes of a state on one of the ranks that divide it."""
    return -(-state.held // min(layout.tp, state.ranks))
