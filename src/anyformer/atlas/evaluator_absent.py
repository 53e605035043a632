"""Numbers that a description may leave out, because they follow from others: they are written out to be traced.

An absent number of key heads is the number of heads: a program has an input for it either way, and an expression of the others
that is its value where it is absent. So one program serves both, and whoever changes the page's numbers may give or take it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from anyformer.atlas.evaluator_bounds import bounds_of
from anyformer.atlas.evaluator_number import NumberTrace, Traced
from anyformer.atlas.evaluator_trace import Keys
from anyformer.describe import UserError, change_all, get
from anyformer.model import Architecture
from anyformer.parts.sublayer import Sublayer


@dataclass(frozen=True)
class FollowingNumber:
    """What an absent number is: a node of a trace, and the conditions under which that holds."""

    node: int
    guards: tuple[tuple[int, bool], ...]

    @property
    def last(self) -> int:
        """The last node that it reads."""
        return max(self.node, *(at for at, _ in self.guards), 0)


def followers(architecture: Architecture) -> Mapping[Keys, int]:
    """The places of sublayers whose numbers may be absent and follow from others then, each with what stands there or would."""
    found: dict[Keys, int] = {}
    for keys, sublayer in sublayers(architecture):
        for name, field in type(sublayer).model_fields.items():
            now = getattr(sublayer, name)
            if type(None) not in get_args(field.annotation) or bounds_of(sublayer, name) is None:
                continue
            with suppress(UserError, ValueError):  # it may not be absent here
                alone = sublayer if now is None else sublayer.but(**{name: None})
                follows = getattr(alone.resolved(architecture.width), name)
                if type(follows) is int:
                    found[(*keys, name)] = follows if now is None else now
    return found


def sublayers(architecture: Architecture) -> Iterator[tuple[Keys, Sublayer]]:
    """The sublayers of the stacks by their places."""
    for name, stack in architecture.stacks.items():
        for variant, block in stack.variants.items():
            for i, step in enumerate(block.steps):
                for branch, part in step.branches.items():
                    yield (name, "variants", variant, "steps", i, "branches", branch, "sublayer"), part.sublayer


def written_out(architecture: Architecture, following: Mapping[Keys, int]) -> Architecture:
    """The architecture with its absent numbers where they may stand; its costs are the same."""
    paths = {".".join(map(str, keys)): value for keys, value in following.items()}
    absent = {path: value for path, value in paths.items() if get(architecture, path) is None}
    return change_all(architecture, absent) if absent else architecture


def following_number(trace: NumberTrace, traced: Architecture, keys: Keys) -> FollowingNumber | None:
    """What the number at a place of a traced architecture is where it is absent; None where that is no number of the others."""
    sublayer, name = get(traced, ".".join(map(str, keys[:-1]))), str(keys[-1])
    before = set(trace.guards)
    value: Any = getattr(sublayer.but(**{name: None}).resolved(traced.width), name)
    if type(value) is not Traced:
        return None
    return FollowingNumber(value.at, tuple((at, holds) for at, holds in trace.guards.items() if at not in before))
