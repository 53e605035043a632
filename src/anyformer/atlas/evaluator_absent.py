"""Numbers that a description may leave out, because they follow from others: they are written out to be traced.

An absent number of key heads is the number of heads: a program has an input for it either way, and an expression of the others
that is its value where it is absent. So one program serves both, and whoever changes the page's numbers may give or take it. A
causal mask is a window that is wider than the call, so that the size of a window may be absent too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from anyformer.atlas.evaluator_bounds import bounds_of
from anyformer.atlas.evaluator_number import NumberTrace, Traced
from anyformer.atlas.evaluator_trace import Keys
from anyformer.describe import UserError, change, change_all, get
from anyformer.dims import LARGEST
from anyformer.model import Architecture
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Causal, Window
from anyformer.parts.sublayer import Sublayer

EVERY, WIDEST = Causal(), Window(size=LARGEST)
"""Masks that allow the same pairs of every call that is not longer than the window."""


@dataclass(frozen=True)
class FollowingNumber:
    """What an absent number is: a node of a trace, and the conditions under which that holds."""

    node: int
    guards: tuple[tuple[int, bool], ...]

    @property
    def last(self) -> int:
        """The last node that it reads."""
        return max(self.node, *(at for at, _ in self.guards), 0)


@dataclass(frozen=True)
class OptionalNumber:
    """A number that may be absent: what stands there or would; `kinds`: of a part that has it, without it and with it."""

    value: int
    absent: bool
    kinds: tuple[str, str] | None = None


def followers(architecture: Architecture) -> Mapping[Keys, OptionalNumber]:
    """The places of sublayers whose numbers may be absent: sizes that follow from others then, and sizes of windows."""
    found: dict[Keys, OptionalNumber] = {}
    for keys, sublayer in sublayers(architecture):
        for name, field in type(sublayer).model_fields.items():
            now = getattr(sublayer, name)
            with suppress(UserError, ValueError):  # it may not be absent here
                if isinstance(now, Mask):
                    found |= _window(architecture, (*keys, name), now)
                elif type(None) in get_args(field.annotation) and bounds_of(sublayer, name) is not None:
                    alone = sublayer if now is None else sublayer.but(**{name: None})
                    follows = getattr(alone.resolved(architecture.width), name)
                    if type(follows) is int:
                        found[(*keys, name)] = OptionalNumber(follows if now is None else now, now is None)
    # Where a mask may not be written out, layers share what masks tell apart: others are not the same there either.
    again = followers(written_out(architecture, found)) if any(each.absent and each.kinds for each in found.values()) else found
    return found if again.keys() == found.keys() else {keys: each for keys, each in found.items() if each.kinds is None}


def _window(architecture: Architecture, keys: Keys, mask: Mask) -> Mapping[Keys, OptionalNumber]:
    """The size of a window into the past, which all of the past is without."""
    absent = mask == EVERY
    if not absent and (mask.past is None or mask != WIDEST.but(size=mask.past)):
        return {}
    change(architecture, dotted(keys), WIDEST if absent else EVERY)
    return {(*keys, "size"): OptionalNumber(WIDEST.size if absent else int(mask.past or 0), absent, (EVERY.kind, WIDEST.kind))}


def dotted(keys: Keys) -> str:
    """The keys as a path."""
    return ".".join(map(str, keys))


def sublayers(architecture: Architecture) -> Iterator[tuple[Keys, Sublayer]]:
    """The sublayers of the stacks by their places."""
    for name, stack in architecture.stacks.items():
        for variant, block in stack.variants.items():
            for i, step in enumerate(block.steps):
                for branch, part in step.branches.items():
                    yield (name, "variants", variant, "steps", i, "branches", branch, "sublayer"), part.sublayer


def written_out(architecture: Architecture, following: Mapping[Keys, OptionalNumber]) -> Architecture:
    """The architecture with its absent numbers where they may stand; its costs are the same."""
    absent = {
        dotted(keys[:-1] if each.kinds else keys): WIDEST if each.kinds else each.value
        for keys, each in following.items()
        if each.absent
    }
    return change_all(architecture, absent) if absent else architecture


def following_number(
    trace: NumberTrace, traced: Architecture, length: Any, keys: Keys, of_window: bool
) -> FollowingNumber | None:
    """What the number at a place of a traced architecture is where it is absent; None where that is no number of the others."""
    before, trace.guards = trace.guards, {}
    try:
        value = _widest(trace, length) if of_window else _followed(traced, keys)
        if type(value) is not Traced:
            return None
        return FollowingNumber(value.at, tuple(trace.guards.items()))
    finally:
        trace.guards = {**trace.guards, **before}


def _followed(traced: Architecture, keys: Keys) -> Any:
    sublayer, name = get(traced, dotted(keys[:-1])), str(keys[-1])
    return getattr(sublayer.but(**{name: None}).resolved(traced.width), name)


def _widest(trace: NumberTrace, length: Any) -> Any:
    """A window beyond the length of a call."""
    return Traced(trace, trace.of(WIDEST.size), WIDEST.size) if length <= WIDEST.size else None
