"""`anyformer plan A [B ...] --serve --arrivals RATE`: the fleet that requests need, how long they wait, and its price."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyformer.cli.answering import Answer
from anyformer.cli.pages import Figures, Item, Paragraph, Verbatim
from anyformer.cli.queue_options import ArrivalOptions
from anyformer.cli.serving import RATE
from anyformer.costs.figures import Figure, clock, count, seconds, share, size
from anyformer.costs.rows import FigureRow, PageLine, Section

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.model import Architecture
    from anyformer.plan import Plan
    from anyformer.planning.queues.fleet import FleetOffer, FleetSearch

TITLES = {"ttft": "time to the first token", "tpot": "time per further token", "latency": "time to the last token"}


def answered(
    made: Mapping[str, Architecture],
    asked: ArrivalOptions,
    on: Hardware,
    accelerators: int | None,
    rate: float | None,
    plan: Plan,
    *,
    json: bool,
) -> Answer:
    """The answer for every architecture, one below the other."""
    from anyformer.describe import UserError
    from anyformer.pictures.style import check_picture

    if asked.plot is not None:
        check_picture(asked.plot)
        if len(made) > 1:
            raise UserError(f"--plot draws one architecture, got {', '.join(made)}: name one")
    price, page, told = RATE if rate is None else rate, list[Item](), []
    for name, each in made.items():
        try:
            search = _search(each, asked, on, plan)
            offers = search.offers(accelerators)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
        told.append(_data(name, search, offers, price))
        page += [*([PageLine("")] if page else []), *_page(name, search, offers, price, assumed=rate is None)]
        if asked.plot is not None:
            _draw(asked.plot, name, search, offers[0])
            page.append(PageLine(f"drawn: {asked.plot}"))
    return Answer([Verbatim(jsons.dumps(told, indent=2))] if json else page)


def _draw(path: Path, name: str, search: FleetSearch, offer: FleetOffer) -> None:
    """The same fleet under a fifth of the requests and up to those that it cannot answer."""
    from anyformer.pictures.queues import LoadCurves, draw_load
    from anyformer.planning.queues.fleet import sweep

    outcomes = sweep(offer.fleet, search.requests)
    limits, rates = search.limits, [each.requests.rate for each in outcomes]
    latencies = {
        title: [cast("tuple[float, float, float]", each.latencies[which]) for each in outcomes]
        for which, title in TITLES.items()
    }
    named = {TITLES[which]: limit for which, limit in (("ttft", limits.ttft), ("tpot", limits.tpot)) if limit is not None}
    kept = [each.goodput(limits) for each in outcomes] if limits.any else None
    answered = [each.requests_per_second for each in outcomes]
    draw_load(path, LoadCurves(f"{name} on {_fleet(offer)}", rates, latencies, answered, kept, search.requests.rate, named))


def _search(made: Architecture, asked: ArrivalOptions, on: Hardware, plan: Plan) -> FleetSearch:
    from anyformer.costs.page import longest
    from anyformer.planning.queues.fleet import FleetSearch
    from anyformer.planning.serving import LayoutSearch, check_generates

    check_generates(made)
    requests = asked.drawn(longest(made))
    search = LayoutSearch(made, asked.places, requests.longest, on, asked.weights, on.resolved(plan))
    return FleetSearch(search, requests, asked.rules, asked.limits, asked.kept / 100, asked.disaggregated)


def _page(name: str, search: FleetSearch, offers: list[FleetOffer], rate: float, *, assumed: bool) -> Iterator[Item]:
    best = offers[0]
    yield PageLine(_answer(name, search, best, rate), strong=True)
    yield PageLine(f"at ${rate:,.2f} per accelerator-hour" + (" (assumed: give yours with --rate)" if assumed else ""))
    if best.outcome.overloaded:
        yield PageLine("requests come faster than they are answered: the longer it lasts, the longer they wait")
    yield PageLine("")
    yield Figures((_latencies(best), _figures(search, best, rate)))
    if len(offers) > 1:
        yield PageLine("")
        yield PageLine("other engines", strong=True)
        for offer in offers[1:]:
            yield PageLine(f"  {_fleet(offer)}, ${offer.price(rate):,.2f} per million generated tokens, {_waits(offer)}")
    yield PageLine("")
    yield Paragraph(basis(search))


def _answer(name: str, search: FleetSearch, offer: FleetOffer, rate: float) -> str:
    kept = offer.outcome.within(search.limits)
    limits = f"; {kept:.1%} of them keep {_limits(search)}" if search.limits.any else ""
    return (
        f"{name}: {_fleet(offer)} for {search.requests.rate:,.3g} requests/s, ${offer.price(rate):,.2f} per million generated "
        f"tokens{limits}"
    )


def _fleet(offer: FleetOffer) -> str:
    engines, readers, ranks = offer.fleet.engines, offer.fleet.readers, offer.layout.ranks
    apart = f"{readers} that read{'s' if readers == 1 else ''} and {engines} that write{'s' if engines == 1 else ''}"
    each = apart if readers else f"{engines} engine{'' if engines == 1 else 's'}"
    return f"{offer.accelerators:,} {offer.hardware.name.upper()} ({each} of {ranks}: {offer.layout})"


def _limits(search: FleetSearch) -> str:
    limits = search.limits
    named = (("the first token within", limits.ttft), ("every further one within", limits.tpot))
    return " and ".join(f"{said} {clock(limit)}" for said, limit in named if limit is not None)


def _waits(offer: FleetOffer) -> str:
    (first, late, _), (token, *_) = (offer.outcome.latencies[name] for name in ("ttft", "tpot"))
    return f"first token {clock(first)} (95%: {clock(late)}), further ones {clock(token)}"


def _latencies(offer: FleetOffer) -> Section:
    found = offer.outcome.latencies
    rows = tuple(FigureRow(title, tuple(seconds(each) for each in found[name])) for name, title in TITLES.items())
    return Section("What requests wait for", ("half within", "95% within", "99% within"), rows)


def _figures(search: FleetSearch, offer: FleetOffer, rate: float) -> Section:
    outcome, requests = offer.outcome, search.requests
    goodput = (FigureRow("goodput, requests per second", (Figure(f"{outcome.goodput(search.limits):.3g}"),)),)
    rows = (
        FigureRow("tokens of a prompt, mean", (count(requests.prompt.mean()),)),
        FigureRow("tokens of an answer, mean", (count(requests.output.mean()),)),
        FigureRow("requests per second, to the last", (Figure(f"{outcome.requests_per_second:.3g}"),)),
        *(goodput if search.limits.any else ()),
        FigureRow("tokens per second, to the last", (count(outcome.tokens_per_second),)),
        FigureRow("requests in the service, mean", (count(outcome.inside),)),
        FigureRow("engines busy", (share(outcome.utilisation),)),
        FigureRow("room for states, an engine", (size(offer.fleet.times.room),)),
        FigureRow("decode state, the longest request", (size(offer.fleet.times.held(requests.longest)),)),
        FigureRow("$ per million generated tokens", (Figure(f"{offer.price(rate):,.3g}"),)),
        FigureRow("requests simulated", (count(requests.count),)),
        FigureRow("steps simulated", (count(outcome.steps),)),
    )
    return Section("The service", ("",), rows)


def basis(search: FleetSearch) -> str:
    """The assumptions behind the figures, and what they leave out."""
    shares, rules = search.search.on.efficiency, search.rules
    return (
        f"Every step is timed as by `cost`: {shares.matrix:.0%} of the peak in products, {shares.attention:.0%} in attention, "
        f"{shares.memory:.0%} of the memory's bandwidth. An engine has at most {rules.places:,} texts, and reads prompts in "
        f"what is left of {rules.budget:,} tokens of a step. A request is taken when there is room for all its tokens, in the "
        "order of coming, by the engine with the fewest. Left out: the host between two steps, sampling, the network to "
        "clients, texts that end sooner or later than they are drawn. The first tenth of requests finds an empty service, and "
        "is not among the latencies."
    )


def _data(name: str, search: FleetSearch, offers: list[FleetOffer], rate: float) -> dict[str, Any]:
    """Plain data, for JSON: seconds, tokens and dollars."""
    return {
        "name": name,
        "hardware": search.search.on.name,
        "requests_per_second": search.requests.rate,
        "limits": asdict(search.limits),
        "rate": rate,
        "offers": [
            {
                "accelerators": offer.accelerators,
                "engines": offer.fleet.engines,
                "readers": offer.fleet.readers,
                "layout": asdict(offer.layout),
                "price_per_million_tokens": offer.price(rate),
                **{
                    name: dict(zip(("p50", "p95", "p99"), found, strict=True))
                    for name, found in offer.outcome.latencies.items()
                },
                "within_limits": offer.outcome.within(search.limits),
                "goodput": offer.outcome.goodput(search.limits),
                "tokens_per_second": offer.outcome.tokens_per_second,
                "requests_inside": offer.outcome.inside,
                "utilisation": offer.outcome.utilisation,
                "overloaded": offer.outcome.overloaded,
            }
            for offer in offers
        ],
    }
