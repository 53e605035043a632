"""The differences between two architectures in words, and their effect on parameters, FLOPs and decode state."""

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
from anyformer.precision import Bf16

_PLAN = Plan(precision=Bf16())
_Pair = tuple[tuple[str, ...], Any, Any]
"""The path of a value, and the value on the left and on the right."""


@dataclass(frozen=True)
class Change:
    """A value or quantity (`what`) that differs, on the left and on the right; `ratio`: right / left, if left is not 0."""

    what: str
    left: str
    right: str
    ratio: float | None = None


@dataclass(frozen=True)
class Difference:
    """`summary`: columns of the catalogue that differ; `details`: every value that differs; `costs`: quantities of both."""

    summary: tuple[Change, ...]
    details: tuple[Change, ...]
    costs: tuple[Change, ...]


def difference(left: Architecture, right: Architecture, *, batch: int = 1, length: int = 4096) -> Difference:
    """Changes from `left` to `right`; FLOPs and decode state (16 bits) for `batch` texts of `length` tokens."""
    ours, theirs = (cost(made, batch=batch, length=length, mode="prefill", plan=_PLAN) for made in (left, right))
    return Difference(tuple(_summary(left, right)), details(left, right), tuple(_costs(ours, theirs)))


def details(left: Architecture, right: Architecture) -> tuple[Change, ...]:
    """Every value that differs, the same change in several places once; initialisation, which follows from others, last."""
    # With defaults resolved, an absent number of key heads is the number of heads, and equal architectures are equal.
    pairs = _architectures(left.resolved(), right.resolved())
    return _merged(sorted(pairs, key=lambda pair: pair[0][0] == "initialisation"))


def _summary(left: Architecture, right: Architecture) -> Iterator[Change]:
    ours, theirs = (dict(_columns(made)) for made in (left, right))
    for name in ours:
        if ours[name] != theirs[name]:
            yield Change(name, _shown(ours[name]), _shown(theirs[name]))
    here, there = map(_masks, (left, right))
    # Windows have a column; a mask that lets a token see later ones makes another model, even where it costs the same.
    if here and there and set(here.values()) != set(there.values()):
        yield Change("mask", " + ".join(here), " + ".join(there))


def _masks(made: Architecture) -> Mapping[str, bool]:
    """The masks of all layers in words, and whether a token sees later ones under them."""
    blocks = (block for stack in made.stacks.values() for block in stack.variants.values())
    masks = (mask for block in blocks for sublayer in block.sublayers for mask in sublayer.masks)
    return {mask.words: mask.looks_ahead for mask in masks}


def _columns(made: Architecture) -> Iterator[tuple[str, object]]:
    """The columns of the catalogue but for the costs; experts as `2 of 8`, of which a token passes two, or none."""
    row = columns(made)
    named = asdict(row) | {"experts": f"{row.chosen} of {row.experts}" if row.experts else "none"}
    yield from ((name, value) for name, value in named.items() if name not in ("chosen", "parameters", "active"))


def _costs(left: CostSheet, right: CostSheet) -> Iterator[Change]:
    ours, theirs = _quantities(left), _quantities(right)
    for what in ours:
        (here, unit), (there, _) = ours[what], theirs[what]
        if here or there:
            yield Change(what, f"{scaled(here)}{unit}", f"{scaled(there)}{unit}", there / here if here else None)


def _quantities(sheet: CostSheet) -> dict[str, tuple[int, str]]:
    """Quantities of a sheet by name, each with its unit."""
    flops, tokens = sheet.flops.total.exact, sheet.shape.batch * sheet.shape.length
    elementwise = sum(work.exact for work in sheet.elementwise.values())
    return {
        "parameters": (sheet.params.total, ""),
        "parameters that a token uses": (sheet.params.active, ""),
        "memory of weights": (sheet.weights[sheet.precision], "B"),
        "FLOPs of prefill": (flops, ""),
        "FLOPs of prefill per token": (flops // tokens, ""),
        "element-wise per token": (elementwise // tokens, ""),
        "decode state": (sheet.state_bytes, "B"),
        "decode state of the last token": (sheet.state_bytes_per_token, "B"),
    }


def _architectures(left: Architecture, right: Architecture) -> Iterator[_Pair]:
    ours, theirs = left.stacks, right.stacks
    yield from _fields(left, right, skip=("encoder", "decoder"))
    if len(ours) == len(theirs) == 1:
        (here, own), (there, other) = *ours.items(), *theirs.items()
        if here != there:
            yield ("stack",), here, there
        yield from _stacks(own, other)
        return
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            yield from _within((name,), _stacks(ours[name], theirs[name]))
        else:
            yield (name,), ours[name].order if name in ours else None, theirs[name].order if name in theirs else None


def _stacks(left: Stack, right: Stack) -> Iterator[_Pair]:
    """Differences of two stacks, each variant compared with the variant of its name, or else the nearest."""
    yield from _fields(left, right, skip=("variants",))
    ours, theirs = left.variants, right.variants
    pairs = [(_nearest(block, ours, name), name) for name, block in theirs.items()]
    compared = {here for here, _ in pairs}
    pairs += [(name, _nearest(block, theirs, name)) for name, block in ours.items() if name not in compared]
    changes = {pair: list(_blocks(ours[pair[0]], theirs[pair[1]])) for pair in pairs}
    everywhere = [change for change in changes[pairs[0]] if all(change in own for own in changes.values())]
    yield from everywhere
    for pair, own in changes.items():
        name = pair[len(theirs) >= len(ours)]
        yield from _within((name,), (change for change in own if change not in everywhere))


def _nearest(block: Block, others: Mapping[str, Block], name: str) -> str:
    """The name of the block of the same name, or of the block with the fewest differences."""
    return name if name in others else min(others, key=lambda other: len(list(_blocks(others[other], block))))


def _blocks(left: Block, right: Block) -> Iterator[_Pair]:
    """Differences of two blocks, branches compared by name whatever their step."""
    ours, theirs = ({name: branch for step in block.steps for name, branch in step.branches.items()} for block in (left, right))
    for name in dict.fromkeys([*ours, *theirs]):
        if name in ours and name in theirs:
            yield from _within((name,), _fields(ours[name], theirs[name]))
        else:
            yield (name,), ours[name].sublayer if name in ours else None, theirs[name].sublayer if name in theirs else None
    if len(left.steps) == len(right.steps):
        for here, there in zip(left.steps, right.steps, strict=True):
            yield from _fields(here, there, skip=("branches",))
    else:
        yield ("steps",), len(left.steps), len(right.steps)


def _fields(left: Value, right: Value, skip: tuple[str, ...] = ()) -> Iterator[_Pair]:
    """Fields in which two values of one type differ, but for those to `skip`."""
    for name in (name for name in type(left).model_fields if name not in skip):
        here, there = getattr(left, name), getattr(right, name)
        if isinstance(here, Value) and type(here) is type(there):
            place = () if name in type(left).through else (name,)
            for path, a, b in diff(here, there):
                yield (*place, *path.split(".")), a, b
        elif here != there:
            yield (name,), here, there


def _within(place: tuple[str, ...], pairs: Iterable[_Pair]) -> Iterator[_Pair]:
    for names, here, there in pairs:
        yield (*place, *names), here, there


def _merged(pairs: Iterable[_Pair]) -> tuple[Change, ...]:
    """Changes in words, the same change in several places once."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for names, here, there in pairs:
        *place, last = (name.replace("_", " ") for name in names)
        places.setdefault((last, _shown(here), _shown(there)), []).append(" ".join(place))
    return tuple(Change(_title(last, where), here, there) for (last, here, there), where in places.items())


def _title(what: str, where: list[str]) -> str:
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
    return f"{value:.6g}" if isinstance(value, float) else str(value) or "none"
