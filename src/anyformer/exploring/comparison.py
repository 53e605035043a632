"""Two or three architectures side by side: what differs, what it costs, and the stairs of changes from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from anyformer.costs.difference import Change, Difference, difference
from anyformer.costs.priced_stairs import StepFigures, priced_stairs, step_figures
from anyformer.costs.sheet import CostSheet
from anyformer.describe import UserError
from anyformer.describe.value import as_data
from anyformer.exploring.diagram import diagram_data
from anyformer.exploring.figures import figures, sheet_of
from anyformer.exploring.forms import inline
from anyformer.exploring.question import KEYS, PricedCall, Query, call_of, changes_of, check_keys
from anyformer.model import Architecture

MOST = 3
"""Architectures side by side at most."""


@dataclass(frozen=True)
class ComparedQuestion:
    """Architectures by name, each with its changes, and the call that is priced."""

    of: tuple[tuple[str, tuple[str, ...]], ...]
    call: PricedCall


def compared_of(query: Query) -> ComparedQuestion:
    """The question of a query in which a change says the number of its architecture first: `set=1:PATH=VALUE`."""
    check_keys(query, KEYS, several=("of", "set", "on"))
    names = query.get("of", ())
    if not 2 <= len(names) <= MOST:
        raise UserError(f"of: name 2 or {MOST} architectures, as in ?of=gpt2&of=llama-3-8b; got {len(names)}")
    own: list[list[str]] = [[] for _ in names]
    for text in changes_of(query.get("set", ())):
        number, colon, change = text.partition(":")
        if not colon or number not in map(str, range(len(names))):
            raise UserError(f"set: say which architecture is changed, as in set=1:PATH=VALUE, from 0; got {text[:60]!r}")
        own[int(number)].append(change)
    return ComparedQuestion(tuple(zip(names, map(tuple, own), strict=True)), call_of(query))


def compared(named: Mapping[str, Architecture], call: PricedCall) -> dict[str, Any]:
    """The comparison of architectures by their titles, with the first: ratios are of its figures."""
    sheets = {title: sheet_of(made, call) for title, made in named.items()}
    length = min(sheet.length for sheet in sheets.values())
    call = replace(call, length=length)
    first, *others = named.values()
    found = [difference(first, other, batch=call.batch, length=length) for other in others]
    return {
        "of": list(named),
        "digests": [made.digest for made in named.values()],
        "length": length,
        "diagram": diagram_data(named),
        "summary": _rows([each.summary for each in found]),
        "details": _rows([each.details for each in found]),
        "costs": [*_costs(found)],
        "staircases": [_staircase(start, end, named, call) for start, end in pairwise(named)],
    }


def _rows(found: Sequence[Sequence[Change]]) -> list[dict[str, Any]]:
    """A row for whatever differs somewhere, with the value of every architecture; one that is as the first has its value."""
    by_name = [{change.what: change for change in changes} for changes in found]
    names = dict.fromkeys(name for changes in by_name for name in changes)
    rows = []
    for name in names:
        left = next(changes[name].left for changes in by_name if name in changes)
        rights = [changes[name].right if name in changes else left for changes in by_name]
        rows.append({"what": name, "values": [left, *rights]})
    return rows


def _costs(found: Sequence[Difference]) -> Iterator[dict[str, Any]]:
    """Quantities of all, with their ratios to the first."""
    by_name = [{change.what: change for change in each.costs} for each in found]
    for row in _rows([each.costs for each in found]):
        changes = [costs.get(row["what"]) for costs in by_name]
        yield {**row, "ratios": [1.0, *(None if change is None else change.ratio for change in changes)]}


def _staircase(start: str, end: str, named: Mapping[str, Architecture], call: PricedCall) -> dict[str, Any]:
    """The steps from one to the other, with what each costs; none where nothing differs.

    `changes`: values that a step moves, those that follow of others too, and `words` of them; `alone`: what to set for the step
    alone, or None."""
    climbed = priced_stairs(named[start], named[end], lambda made: step_costs(sheet_of(made, call), call))
    told = [
        {
            "name": each.step.label,
            "changes": [{"path": path, "from": _text(old), "to": _text(value)} for path, old, value in each.step.moved],
            "words": [{"what": change.what, "from": change.left, "to": change.right} for change in each.words],
            "alone": _assignments(climbed.stairs.alone(each.step)),
            "costs": each.figures,
            "deltas": each.deltas,
        }
        for each in climbed.steps
    ]
    return {"from": start, "to": end, "start": climbed.start, "steps": told}


def _assignments(values: Mapping[str, Any] | None) -> list[tuple[str, str]] | None:
    return None if values is None else [(path, _text(value)) for path, value in values.items()]


def step_costs(sheet: CostSheet, call: PricedCall) -> StepFigures:
    """The figures of a step of the stairs: those of the model, and prices on the first accelerator."""
    told = figures(sheet, call)
    times: Mapping[str, Any] = told["accelerators"][0]["modes"] if told["accelerators"] else {}
    return {
        **step_figures(sheet),
        **{
            f"{mode}_price": times[mode]["price_per_million_tokens"] if mode in times else None
            for mode in ("train", "prefill", "decode")
        },
    }


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    return inline(as_data(value))
