"""`anyformer plan A [B ...] --serve`: what serving takes and costs, the answer first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.costs.figures import Figure, count, exact, seconds, size
from anyformer.costs.text import Line, Row, Section, lines, side_by_side

if TYPE_CHECKING:
    from anyformer.planning.serving import Service

RATE = 2.0
"""Dollars per accelerator and hour where none is given: an assumption, and said to be one."""


def page(services: Mapping[str, Service], rate: float, *, assumed: bool) -> Iterator[Line]:
    """Which is cheaper, or what the one takes; then the table; then what it rests on."""
    yield from (Line(text, strong=i == 0) for i, text in enumerate(answer(services, rate)))
    yield Line(f"at ${rate:,.2f} per accelerator-hour" + (" (assumed: give yours with --rate)" if assumed else ""))
    yield Line("")
    tables = [(_table(service, rate),) for service in services.values()]
    yield from lines(side_by_side(list(services), tables) if len(services) > 1 else tables[0])
    yield Line("")
    yield from map(Line, basis(next(iter(services.values()))))


def answer(services: Mapping[str, Service], rate: float) -> Iterator[str]:
    """In a few sentences."""
    names = sorted(services, key=lambda name: services[name].price(rate))
    first, *_, last = (*names, names[-1])
    if len(names) > 1:
        ours, theirs = services[first].price(rate), services[last].price(rate)
        yield (
            f"Cheaper to serve: {first}, ${ours:,.2f} per million generated tokens; {last} costs ${theirs:,.2f}, "
            f"{theirs / ours:,.2f} times as much"
        )
    for name in names:
        each = services[name]
        yield (
            f"{name}: {each.layout.ranks:,} {each.hardware.name}, {each.tokens_per_second:,.0f} tokens/s for {each.users:,} "
            f"users, ${each.price(rate):,.2f} per million tokens"
        )
        yield (
            f"  cache of {each.users:,} users with {each.length:,} tokens each: {size(each.cache.total)} in "
            f"{each.cache_format} ({each.cache.per_token:,} bytes per token)"
        )


def basis(service: Service) -> Iterator[str]:
    """What the figures rest on, and what they leave out."""
    of = service.hardware.efficiency
    yield f"Every user has all {service.length:,} tokens in the cache, and all users get a token at a time. Counted on:"
    yield (
        f"{of.matrix:.0%} of the peak in products, {of.attention:.0%} in attention, {of.memory:.0%} of the memory's bandwidth, "
        f"{of.network:.0%} of the links'; at least 5 us for each"
    )
    yield (
        "exchange between ranks. Left out: idle accelerators, scheduling, shared prompts, speculative decoding. Experts are "
        "taken to be chosen evenly."
    )


def _table(service: Service, rate: float) -> Section:
    cache, title = service.cache, service.hardware.title
    rows = (
        Row(f"{title} needed", (count(service.layout.ranks),)),
        Row("layout", (Figure(str(service.layout)),)),
        Row(f"weights, {service.format}", (size(service.weights),)),
        Row(f"cache, a token, {service.cache_format}", (exact(cache.per_token),)),
        Row("cache, a user", (size(cache.per_sequence),)),
        Row(f"cache, {service.users:,} users", (size(cache.total),)),
        Row(f"fullest accelerator, of {size(service.hardware.room)}", (size(service.held),)),
        Row("time per token", (seconds(service.step),)),
        Row("  of it sending", (seconds(service.sending),)),
        Row("tokens per second, a user", (count(1 / service.step),)),
        Row("tokens per second, all users", (count(service.tokens_per_second),)),
        Row("prompt tokens per second", (count(service.prompt_tokens_per_second),)),
        Row("$ per million generated tokens", (_dollars(service.price(rate)),)),
        Row("$ per million prompt tokens", (_dollars(service.prompt_price(rate)),)),
    )
    return Section("Serving", ("",), rows)


def _dollars(price: float) -> Figure:
    return Figure(f"{price:,.2f}" if price >= 0.1 else f"{price:.2g}", price)


def data(names: Sequence[str], services: Iterable[Service], rate: float) -> list[dict[str, Any]]:
    """Plain data, for JSON: bytes, seconds and dollars."""
    return [
        {
            "name": name,
            "hardware": each.hardware.name,
            "accelerators": each.layout.ranks,
            "layout": asdict(each.layout),
            "users": each.users,
            "length": each.length,
            "weights": {"format": each.format, "bytes": each.weights},
            "cache": {
                "format": each.cache_format,
                "per_token": each.cache.per_token,
                "per_user": each.cache.per_sequence,
                "total": each.cache.total,
            },
            "fullest": each.held,
            "seconds_per_token": each.step,
            "sending": each.sending,
            "tokens_per_second": each.tokens_per_second,
            "prompt_tokens_per_second": each.prompt_tokens_per_second,
            "rate": rate,
            "price_per_million_tokens": each.price(rate),
            "price_per_million_prompt_tokens": each.prompt_price(rate),
        }
        for name, each in zip(names, services, strict=True)
    ]
