"""Kinds of layers that one of two architectures has and the other has not: copied under their names, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.costs.change_labels import exchanged
from anyformer.costs.transition import Keys, within
from anyformer.describe import DescriptionError, Value, change_all
from anyformer.describe.path import differences, item_at, path_in
from anyformer.describe.value import as_data
from anyformer.model import Architecture
from anyformer.parts import Stack


@dataclass(frozen=True)
class RenamedKinds:
    """An architecture with the kinds of layers of another in a stack (`made`): a new one is a copy of one that was there.

    `places`: what changes. `copies`: at the places of the new names, the names of what they are copies of.
    """

    places: tuple[Keys, ...]
    copies: Mapping[Keys, str]
    label: str
    made: Architecture


def renamed_kinds(one: Architecture, like: Architecture, name: str) -> RenamedKinds | None:
    """One architecture with the kinds of layers of another in the stack `name`, and their order; None where it has them
    already, or is not valid so."""
    ours, theirs = one.resolved().stacks[name], like.resolved().stacks[name]
    new, gone = _only(theirs, ours), _only(ours, theirs)
    if not new and not gone:
        return None
    copies: dict[Keys, str] = {(name, "variants", kind): copied_kind(kind, ours, theirs) for kind in new}
    places: tuple[Keys, ...] = (*copies, *((name, "variants", kind) for kind in gone), (name, "order"))
    values = [*copies.values(), *(None for _ in gone), theirs.order]
    changes: dict[str, Any] = {".".join(map(str, keys)): value for keys, value in zip(places, values, strict=True)}
    if set(ours.shared_weights) & {*copies.values(), *gone}:
        # Layers that shared their weights share them under the new name.
        shared = [kind for kind in theirs.variants if copies.get((name, "variants", kind), kind) in ours.shared_weights]
        places, changes = (*places, (name, "shared_weights")), changes | {f"{name}.shared_weights": shared}
    try:
        made = _held(one, changes, places, like.resolved())
    except DescriptionError:
        return None
    places = (*places, *(keys for keys, *_ in differences(one, made) if not within(keys, places)))
    return RenamedKinds(places, copies, _label(name, ours, theirs), made)


def copied_kind(kind: str, ours: Stack, theirs: Stack) -> str:
    """Our kind of layer that a kind of theirs is to be a copy of: the one that stands wherever theirs does, in as many layers;
    else the one with the fewest differences."""
    stood = {mine for mine, other in zip(ours.layers, theirs.layers, strict=False) if other == kind}
    if ours.depth == theirs.depth and len(stood) == 1:
        return stood.pop()
    return min(ours.variants, key=lambda mine: sum(1 for _ in differences(ours.variants[mine], theirs.variants[kind])))


def comes_last(ours: Stack, theirs: Stack) -> bool:
    """Whether kinds go from one stack to another rather than come, so that those that stay can change first."""
    new, gone = _only(theirs, ours), _only(ours, theirs)
    return len(gone) > len(new) and set(new) <= {copied_kind(kind, theirs, ours) for kind in gone}


def values_at(made: Value, places: Sequence[Keys], copies: Mapping[Keys, str]) -> Iterator[tuple[Keys, Any]]:
    """What to set at some places: the name of what a new kind of layer is a copy of, or the value there."""
    yield from ((keys, copies[keys] if keys in copies else item_at(made, keys)) for keys in places)


def _held(one: Architecture, changes: Mapping[str, Any], places: Sequence[Keys], end: Architecture) -> Architecture:
    """An architecture with changes; what follows of them keeps its value, unless the new one is that of the end."""
    pins: dict[str, Any] = {}
    while True:
        made = change_all(one, {**changes, **pins})
        astray = {
            path_in(one, made, keys): as_data(stood)
            for keys, stood, now in differences(one.resolved(), made.resolved())
            if not within(keys, places) and now != item_at(end, keys)
        }
        if not astray:
            return made
        if astray.items() <= pins.items():
            raise DescriptionError(f"{next(iter(astray))}: follows of other values, and cannot be held")
        pins |= astray


def _only(ours: Stack, theirs: Stack) -> list[str]:
    return [kind for kind in ours.variants if kind not in theirs.variants]


def _label(name: str, ours: Stack, theirs: Stack) -> str:
    """`decoder local beside layer`, `decoder local and global for layer and 34 layers`, `decoder layer without local`."""
    depth = f" and {theirs.depth:,} layers" if theirs.depth != ours.depth else ""
    return f"{name} {exchanged(ours.variants, theirs.variants)}{depth}".replace("_", " ")
