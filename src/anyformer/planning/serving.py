"""Serving: how many accelerators serve a token for the least money, the fastest layout on them, and what a token costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from anyformer.costs.figures import scaled
from anyformer.costs.hardware import Hardware
from anyformer.costs.inference import FORMATS, DecodeState, decode_state, weight_bytes
from anyformer.costs.kernels import Kernel, Mode, kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import timed
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.operations import Shape, State
from anyformer.plan import Plan
from anyformer.planning import communication, links
from anyformer.planning.layout import Bounds, Layout, bounds, divisors
from anyformer.planning.stages import Row, Stage, place, row_of, stages

MOST = 4096
"""Accelerators that are tried."""
BEYOND = 4
"""How many times the fewest accelerators that hold a model are tried for a lower price."""


@dataclass(frozen=True)
class Service:
    """An architecture served to `users` at once, each with `length` tokens in the cache, under a layout that fits.

    `least`: the fewest accelerators that hold it; `held`: bytes of the fullest rank; `step`: seconds in which every user gets
    one token, `prefill` those in which a prompt of `length` passes; `sending`: of `step`, what ranks wait for one another.
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
    held: int
    step: float
    sending: float
    prefill: float
    least: int

    @property
    def tokens_per_second(self) -> float:
        """Of all users together."""
        return self.users / self.step

    @property
    def prompt_tokens_per_second(self) -> float:
        """Every replica and every stage at work on a prompt of its own."""
        return self.layout.dp * self.layout.pp * self.length / self.prefill

    def price(self, rate: float) -> float:
        """Of a million generated tokens, at `rate` per accelerator and hour."""
        return self._hourly(rate) / 3600 / self.tokens_per_second * 1e6

    def prompt_price(self, rate: float) -> float:
        """Of a million tokens of prompts."""
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
    """The count of accelerators at which a token costs least (or the one given), and of its layouts the fastest.

    Counts go from the fewest that hold weights and caches to `BEYOND` times as many, beyond one node in whole nodes. Searched:
    dp replicas of attention with users of their own, tp up to a node, pp up to a layer per stage; experts are divided over all
    dp x tp ranks of a stage. Raises `UserError` where nothing fits.
    """
    on = hardware_of(hardware)
    search = _Search(architecture, users, length, on, format, on.resolved(plan or Plan()))
    if not search.state.memories and architecture.decoder is None:
        raise UserError(f"generates no tokens, so there is nothing to serve: it is {architecture.shape_of_model}")
    counts = [accelerators] if accelerators else _beyond(search.least, on.domain)
    found = [service for count in counts if (service := search.fastest(count))]
    if not found:
        raise UserError(_refused(search, accelerators))
    return min(found, key=lambda each: each.price(1.0))


def _counts(domain: int) -> Iterator[int]:
    """1 ... a node, then whole nodes."""
    yield from range(1, domain)
    yield from range(domain, MOST + 1, domain)


def _beyond(least: int | None, domain: int) -> list[int]:
    """The least, then up to `BEYOND` times as many in steps of a power of two of nodes, so that there are few of them."""
    if least is None:
        return []
    nodes = 1 << max(0, (least // domain // 4).bit_length() - 1)
    most = min(BEYOND * least, MOST)
    return [
        least,
        *(count for count in _counts(domain) if least < count <= most and (count < domain or count // domain % nodes == 0)),
    ]


def _refused(search: _Search, accelerators: int | None) -> str:
    """Why no layout on so many fits: too little memory, or no way to divide the model among this count."""
    on, asked = search.on, accelerators or MOST
    if asked * on.usable_memory >= search.whole and (near := search.near(asked)):
        use = " or ".join(f"{count:,}" for count in near)
        return f"no layout that divides the model among {asked:,} {on.title} fits: use {use}"
    more = "" if search.least is None else f"--gpus {search.least:,} or more, "
    return (
        f"{scaled(search.weights)}B of weights and {scaled(search.state.total)}B of cache do not fit on {asked:,} {on.title} "
        f"with {scaled(on.usable_memory)}B for each: give {more}fewer --users or a shorter --length"
    )


@dataclass(frozen=True)
class _Search:
    """A question, and what its answers share."""

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
    def whole(self) -> int:
        """Bytes of weights and caches."""
        return self.weights + self.state.total

    @cached_property
    def least(self) -> int | None:
        """The fewest accelerators that hold it, None where `MOST` do not."""
        return next((count for count in _counts(self.on.domain) if self.fitting(count)), None)

    def near(self, asked: int) -> list[int]:
        """The nearest counts below and above one that hold it."""
        counts = list(_counts(self.on.domain))
        below = next((count for count in reversed(counts) if count < asked and self.fitting(count)), None)
        above = next((count for count in counts if count > asked and self.fitting(count)), None)
        return [count for count in (below, above) if count is not None]

    def fitting(self, count: int) -> list[Layout]:
        """The layouts of so many accelerators of which each holds its part."""
        if count * self.on.usable_memory < self.whole:
            return []
        return [layout for layout in self.layouts(count) if self.held(layout) <= self.on.usable_memory]

    def fastest(self, count: int) -> Service | None:
        """Of these the one with the shortest step."""
        return min(map(self.served, self.fitting(count)), key=lambda each: each.step, default=None)

    @cached_property
    def row(self) -> Row:
        """Weights and collectives of each layer; its length is of no matter here."""
        return row_of(self.architecture, 16, self.plan)

    @cached_property
    def bounds(self) -> Bounds:
        return bounds(self.architecture)

    @cached_property
    def share(self) -> float:
        """Bytes of weights in their format over those in 16 bits."""
        return self.weights / weight_bytes(self.architecture, FORMATS["bf16"])

    @cached_property
    def per_user(self) -> Mapping[str, Sequence[State]]:
        """Decode state of one user, by the name of the unit that holds it."""
        source, found = self.length if self.architecture.two_inputs else 0, dict[str, list[State]]()
        for node in self.architecture.cost(Shape(past=self.length - 1, source=source), self.plan).nodes():
            if node.tally.own_state is not None:
                found.setdefault(place(node.address, self.architecture), []).append(node.tally.own_state)
        return found

    def layouts(self, count: int) -> Iterator[Layout]:
        """Every way to part `count` ranks that the architecture allows."""
        for tp in divisors(count, self.on.domain):
            if self.bounds.uncut(tp) or self.bounds.width % tp:
                continue
            for pp in divisors(count // tp, self.bounds.depth):
                dp = count // tp // pp
                if dp <= self.users:
                    ep = min(dp * tp, *self.bounds.experts) if self.bounds.experts else 1
                    yield Layout(dp=dp, tp=tp, pp=pp, ep=ep)

    def held(self, layout: Layout) -> int:
        """Bytes of the fullest rank: its part of the weights, and the caches of its users."""
        users = -(-self.users // layout.dp)
        return max(self._of_stage(stage, layout, users) for stage in stages(self.row, layout.pp, 1))

    def _of_stage(self, stage: Stage, layout: Layout, users: int) -> int:
        numbers = stage.held.dense(layout.tp) + -(-stage.held.experts // layout.ep)
        states = (state for unit in stage.units for state in self.per_user.get(unit.name, ()))
        cache = sum(-(-state.held // min(layout.tp, state.ranks)) for state in states)
        return round(2 * self.share * numbers) + users * cache

    def served(self, layout: Layout) -> Service:
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
            self.held(layout),
            computing + sending,
            sending,
            prompt,
            min(layout.ranks, self.least or layout.ranks),
        )

    def _seconds(self, layout: Layout, mode: Mode, batch: int, tokens: int) -> tuple[float, float]:
        """Seconds of computing and of sending while `batch` rows of each replica, `tokens` in all, pass all stages."""
        work = [each for each in self._work(mode, batch) if each.share != "experts"]
        work += [each for each in self._work(mode, batch * layout.dp) if each.share == "experts"]
        parts = (timed(self._of_rank(each, layout), self.on, self.plan.number)[0] * each.layers for each in work)
        return sum(parts), self._sending(layout, tokens)

    @cached_property
    def _work(self) -> Callable[[Mode, int], list[Kernel]]:
        """The kernels of a mode and a batch, remembered."""
        source = self.length if self.architecture.two_inputs else 0

        @cache
        def work(mode: Mode, batch: int) -> list[Kernel]:
            length, past = (1, self.length) if mode == "decode" else (self.length, 0)
            return kernels(self.architecture, Shape(batch=batch, length=length, past=past, source=source), self.plan, mode)

        return work

    def _of_rank(self, kernel: Kernel, layout: Layout) -> Kernel:
        """One rank's share: products are cut, decode state as far as it can be, the stream not at all."""
        ranks = layout.ep if kernel.share == "experts" else layout.tp
        mine = kernel.of_rank(ranks, layout.ep, sp=False)
        return replace(mine, weights=round(mine.weights * self.share))

    def _sending(self, layout: Layout, tokens: int) -> float:
        """Sums of tensor parallelism, experts' tokens there and back, and the stages' hand-over; each takes `HOP` at least."""
        stream = tokens * self.row.width * self.row.element
        sums = sum(unit.sums for unit in self.row.units) // 2
        seconds = 0.0
        if layout.tp > 1:
            each = communication.all_reduce(stream, layout.tp) / links.ring(self.on, layout.tp, 1) + links.HOP
            seconds += sums * each
        if layout.ep > 1:
            mine = -(-tokens // layout.tp)
            for unit in self.row.units:
                sent = communication.dispatch(mine, unit.routed, self.row.width, self.row.element, layout.ep)
                seconds += 2 * (links.exchange(self.on, sent, layout.ep) + links.HOP) * bool(unit.routed)
        near = layout.ranks <= self.on.domain
        link = (self.on.link if near else self.on.network) * self.on.efficiency.network
        return seconds + (layout.pp - 1) * (stream / layout.tp / link + links.HOP)
