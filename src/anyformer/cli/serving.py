"""`anyformer plan A [B ...] --serve`: the accelerators that serving takes and its price, the answer first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyformer.cli.pages import Figures, Item
from anyformer.costs.figures import Figure, count, exact, seconds, size
from anyformer.costs.rows import FigureRow, PageLine, Section
from anyformer.costs.text import side_by_side

if TYPE_CHECKING:
    from anyformer.planning.serving import Service

RATE = 2.0
"""Dollars per accelerator and hour where none is given: an assumption, and printed as one."""


def page(services: Mapping[str, Service], newer: Mapping[str, Service], rate: float, *, assumed: bool) -> Iterator[Item]:
    """The cheapest first, then a table, then its assumptions. `newer`: the same services with newer attention kernels."""
    yield from (PageLine(text, strong=i == 0) for i, text in enumerate(answer(services, newer, rate)))
    yield PageLine(f"at ${rate:,.2f} per accelerator-hour" + (" (assumed: give yours with --rate)" if assumed else ""))
    yield PageLine("")
    tables = [(_table(service, rate),) for service in services.values()]
    yield Figures(side_by_side(list(services), tables) if len(services) > 1 else tables[0])
    yield PageLine("")
    yield PageLine(basis(next(iter(services.values()))))
    yield from (PageLine(_narrower(name, service)) for name, service in services.items() if service.format == "bf16")


def answer(services: Mapping[str, Service], newer: Mapping[str, Service], rate: float) -> Iterator[str]:
    """The answer in a few sentences."""
    if len(services) > 1:
        first, last, factor = _verdict(services)
        ours, theirs = services[first], services[last]
        price, other = (f"${service.price(rate):,.2f}" for service in (ours, theirs))
        if price == other and _ranks(ours) == _ranks(theirs):
            yield f"Equal to serve: {first} and {last}, each {price} per million generated tokens on {_ranks(ours)}"
        else:
            yield (
                f"Cheaper to serve: {first}, {price} per million generated tokens on {_ranks(ours)}; {last} costs {other} on "
                f"{_ranks(theirs)}, {factor:,.2f} times as much"
            )
        yield _with_newer_kernels(services, newer)
    for name, each in services.items():
        yield (
            f"{name}: {_ranks(each)} ({each.least:,} {'is' if each.least == 1 else 'are'} the least), "
            f"{each.tokens_per_second:,.0f} tokens/s for {_users(each)}, ${each.price(rate):,.2f} per million tokens"
        )
        yield (
            f"  cache of {_users(each)} with {each.length:,} tokens each: {size(each.cache.total)} in "
            f"{each.cache_format} ({each.cache.per_token:,} bytes per token)"
        )


def _verdict(services: Mapping[str, Service]) -> tuple[str, str, float]:
    """The cheapest, the dearest, and how many times the price of the cheapest the dearest costs."""
    names = sorted(services, key=lambda name: services[name].price(1.0))
    return names[0], names[-1], services[names[-1]].price(1.0) / services[names[0]].price(1.0)


def _with_newer_kernels(services: Mapping[str, Service], newer: Mapping[str, Service]) -> str:
    """How the verdict changes if attention reaches the same share of the peak as products."""
    shares = next(iter(services.values())).hardware.efficiency
    (first, _, before), (other, last, factor) = _verdict(services), _verdict(newer)
    share = f"attention at {shares.attention:.0%} of the peak, a share from published runs with software up to 2023"
    if first == other and abs(factor / before - 1) < 0.05:
        return f"counted with {share}; newer kernels ({shares.matrix:.0%}) would not change the factor"
    whose = "" if first == other else f", and {other} the cheaper one instead of {last}"
    return f"counted with {share}; with newer kernels ({shares.matrix:.0%}) the factor would be {factor:,.2f}{whose}"


def _ranks(service: Service) -> str:
    return f"{service.layout.ranks:,} {service.hardware.name.upper()}"


def _users(service: Service) -> str:
    return f"{service.users:,} user{'s' if service.users > 1 else ''}"


def basis(service: Service) -> str:
    """The assumptions behind the figures, and what they leave out."""
    shares = service.hardware.efficiency
    return (
        f"Every user has all {service.length:,} tokens in the cache, and a step gives every user a token. Assumed: "
        f"{shares.matrix:.0%} of the peak in products, {shares.attention:.0%} in attention, {shares.memory:.0%} of "
        f"the memory's bandwidth, {shares.network:.0%} of the links'; at least 5 us per exchange between ranks. Left out: "
        "idle accelerators, scheduling, shared prompts, speculative decoding. Experts are assumed to be chosen evenly."
    )


def _narrower(name: str, service: Service) -> str:
    """What a model that is released, or served, in 8 bits is to be asked with."""
    from anyformer.costs.inference import weight_bytes
    from anyformer.quantising import FORMATS

    narrow = weight_bytes(service.architecture, FORMATS["fp8"])
    return (
        f"{name}: weights are counted in bf16, {size(service.weights)}; where it is released or served in fp8, --weights fp8 "
        f"counts {size(narrow)}"
    )


def _table(service: Service, rate: float) -> Section:
    cache, title = service.cache, service.hardware.title
    rows = (
        FigureRow(f"{title} used", (count(service.layout.ranks),)),
        FigureRow("layout", (Figure(str(service.layout)),)),
        FigureRow(f"weights, {service.format}", (size(service.weights),)),
        FigureRow(f"cache, a token, {service.cache_format}", (exact(cache.per_token),)),
        FigureRow("cache, a user, with positions", (size(cache.per_sequence),)),
        FigureRow(f"cache, {_users(service)}", (size(cache.total),)),
        FigureRow(f"fullest accelerator, of {size(service.hardware.usable_memory)}", (size(service.fullest),)),
        FigureRow("time per token", (seconds(service.step),)),
        FigureRow("  of it sending", (seconds(service.sending),)),
        FigureRow("tokens per second, a user", (count(1 / service.step),)),
        FigureRow("tokens per second, all users", (count(service.tokens_per_second),)),
        FigureRow("prompt tokens per second", (count(service.prompt_tokens_per_second),)),
        FigureRow("$ per million generated tokens", (_dollars(service.price(rate)),)),
        FigureRow("$ per million prompt tokens", (_dollars(service.prompt_price(rate)),)),
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
            "least_accelerators": each.least,
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
            "fullest": each.fullest,
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
