"""What differs between two architectures, in words, and what it does to parameters, FLOPs and decode state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anyformer.catalogue.columns import columns
from anyformer.costs import CostSheet, cost, scaled
from anyformer.describe import Value, brief, diff
from anyformer.model import Architecture
from anyformer.parts import Block, Stack
from anyformer.plan import Plan

_PLAN = Plan(precision="bf16")
_Found = tuple[tuple[str, ...], Any, Any]
"""The names on the way to a value, and the value on the left and on the right."""


@dataclass(frozen=True)
class Change:
    """One thing that differs: what, on the left, on the right; of a quantity also right / left, if there is any on the left."""

    what: str
    left: str
    right: str
    ratio: float | None = None


@dataclass(frozen=True)
class Difference:
    """`summary`: the columns of the catalogue that differ; `details`: every value that does; `costs`: what comes of them."""

    summary: tuple[Change, ...]
    details: tuple[Change, ...]
    costs: tuple[Change, ...]


def difference(left: Architecture, right: Architecture, *, batch: int = 1, length: int = 4096) -> Difference:
    """What changes from `left` to `right`; FLOPs and decode state (16 bits) for `batch` texts of `length` tokens."""
    ours, theirs = (cost(each, batch=batch, length=length, mode="prefill", plan=_PLAN) for each in (left, right))
    # Written out, an absent number of key heads is 12 rather than nothing, and what is equal in other words is equal.
    details = _merged(_architectures(left.resolved(), right.resolved()))
    return Difference(tuple(_summary(left, right)), details, tuple(_costs(ours, theirs)))


def _summary(left: Architecture, right: Architecture) -> Iterator[Change]:
    ours, theirs = (asdict(columns(each)) for each in (left, right))
    for name in ours:
        if ours[name] != theirs[name] and name not in ("parameters", "active"):
            yield Change(name, _shown(ours[name]), _shown(theirs[name]))


def _costs(left: CostSheet, right: CostSheet) -> Iterator[Change]:
    ours, theirs = _quantities(left), _quantities(right)
    for what in ours:
        (here, unit), (there, _) = ours[what], theirs[what]
        if here or there:
            yield Change(what, f"{scaled(here)}{unit}", f"{scaled(there)}{unit}", there / here if here else None)


def _quantities(sheet: CostSheet) -> dict[str, tuple[int, str]]:
    """What -> how much, and its unit."""
    flops, tokens = sheet.flops.total.exact, sheet.shape.batch * sheet.shape.length
    return {
        "parameters": (sheet.params.total, ""),
        "parameters that a token uses": (sheet.params.active, ""),
        "FLOPs of prefill": (flops, ""),
        "FLOPs of prefill per token": (flops // tokens, ""),
        "decode state": (sheet.state_bytes, "B"),
        "decode state of the last token": (sheet.state_bytes_per_token, "B"),
    }


def _architectures(left: Architecture, right: Architecture) -> Iterator[_Found]:
    ours, theirs = left.stacks, right.stacks
    yield from _apart(left, right, skip=("encoder", "decoder"))
    for name in dict.fromkeys([*ours, *theirs]):
        place = () if len(ours) == len(theirs) == 1 else (name,)
        if name in ours and name in theirs:
            yield from _within(place, _stacks(ours[name], theirs[name]))
        else:
            yield (name,), ours[name].order if name in ours else None, theirs[name].order if name in theirs else None


def _stacks(left: Stack, right: Stack) -> Iterator[_Found]:
    """Each variant of a block is held against the one of its name, or else the one that is most like it."""
    yield from _apart(left, right, skip=("variants",))
    ours, theirs = left.variants, right.variants
    pairs = [(_likest(block, ours, name), name) for name, block in theirs.items()]
    met = {here for here, _ in pairs}
    pairs += [(name, _likest(block, theirs, name)) for name, block in ours.items() if name not in met]
    found = {pair: list(_blocks(ours[pair[0]], theirs[pair[1]])) for pair in pairs}
    everywhere = [each for each in found[pairs[0]] if all(each in other for other in found.values())]
    yield from everywhere
    for pair, each in found.items():
        name = pair[len(theirs) >= len(ours)]
        yield from _within((name,), (one for one in each if one not in everywhere))


def _likest(block: Block, others: Mapping[str, Block], name: str) -> str:
    """Its own name, or that of the block with the fewest differences."""
    return name if name in others else min(others, key=lambda other: len(list(_blocks(others[other], block))))


def _blocks(left: Block, right: Block) -> Iterator[_Found]:
    """Branches by their names, in whatever step they stand."""
    ours, theirs = ({name: branch for step in block.steps for name, branch in step.branches.items()} for block in (left, right))
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            yield from _within((name,), _apart(ours[name], theirs[name]))
        else:
            yield (name,), ours[name].sublayer if name in ours else None, theirs[name].sublayer if name in theirs else None
    if len(left.steps) == len(right.steps):
        for here, there in zip(left.steps, right.steps, strict=True):
            yield from _apart(here, there, skip=("branches",))
    else:
        yield ("steps",), len(left.steps), len(right.steps)


def _apart(left: Value, right: Value, skip: tuple[str, ...] = ()) -> Iterator[_Found]:
    """Where two values of one type differ, but for some fields."""
    for name in (each for each in type(left).model_fields if each not in skip):
        here, there = getattr(left, name), getattr(right, name)
        if isinstance(here, Value) and type(here) is type(there):
            place = () if name in type(left).through else (name,)
            for path, a, b in diff(here, there):
                yield (*place, *path.split(".")), a, b
        elif here != there:
            yield (name,), here, there


def _within(place: tuple[str, ...], found: Iterable[_Found]) -> Iterator[_Found]:
    for names, here, there in found:
        yield (*place, *names), here, there


def _merged(found: Iterator[_Found]) -> tuple[Change, ...]:
    """In words; what changes alike in several places is said once."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for names, here, there in found:
        *place, last = (name.replace("_", " ") for name in names)
        places.setdefault((last, _shown(here), _shown(there)), []).append(" ".join(place))
    return tuple(Change(_said(last, where), here, there) for (last, here, there), where in places.items())


def _said(what: str, where: list[str]) -> str:
    named = ", ".join(dict.fromkeys(filter(None, where)))
    return f"{what} of {named}" if named else what


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Value):
        return brief(value)
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{int(value):,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
