"""A recorded step as a program; and two of them that differ in the visible slots of the decode state alone, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from anyformer.generation.program import Call, Value, program, values_in

Repeat = Callable[..., Tensor]
"""The step for tensors that are new in each repetition."""
Bind = Callable[..., Repeat]
"""The step of a text, whose tensors take the places of those kept."""


@dataclass(frozen=True, eq=False)
class Written:
    """`calls` read views of the memory `held`, which `views` make, and what is `given` new in each repetition."""

    views: tuple[Call, ...]
    calls: tuple[Call, ...]
    held: tuple[Value, ...]
    given: tuple[Value, ...]
    result: Value

    def __call__(self, *kept: Tensor) -> Repeat:
        """The step for a text, whose tensors are kept."""
        return partial(self.step, *kept, *self._made(*kept))

    @property
    def lasting(self) -> tuple[Value, ...]:
        """The views."""
        return tuple(value for call in self.views for value in values_in(call.gives))

    @cached_property
    def step(self) -> Callable[..., Tensor]:
        """All calls, of what is kept, the views and what is given."""
        return program(self.calls, [*self.held, *self.lasting, *self.given], self.result)

    @cached_property
    def _made(self) -> Callable[..., tuple[Tensor, ...]]:
        return program(self.views, self.held, self.lasting)


@dataclass(frozen=True, eq=False)
class Span:
    """A step whose program is the same for `few` and for `many` visible slots, but for that number itself.

    `made` gives the views of what is kept; `step` takes them and the number too.
    """

    few: int
    many: int
    made: Callable[..., tuple[Tensor, ...]]
    step: Callable[..., Tensor]

    def at(self, visible: int) -> Bind:
        """The step with a number of visible slots between those two."""
        return lambda *kept: partial(self.step, *kept, *self.made(*kept, visible), visible)


def spanning(few: tuple[int, Written], many: tuple[int, Written]) -> Span | None:
    """One program for two with so many visible slots; None where they differ in more than that number."""
    (a, one), (b, other) = few, many
    visible = Value()
    twins = dict(zip((*one.held, *one.given), (*other.held, *other.given), strict=False))
    try:
        views, calls = (
            [_alike(mine, its, twins, {(a, b): visible}) for mine, its in zip(first, second, strict=True)]
            for first, second in ((one.views, other.views), (one.calls, other.calls))
        )
    except (_DifferError, ValueError):
        return None
    if twins.get(one.result) is not other.result:
        return None
    return Span(
        a, b, program(views, [*one.held, visible], one.lasting),
        program(calls, [*one.held, *one.lasting, visible, *one.given], one.result),
    )  # fmt: skip


def _alike(mine: Call, its: Call, twins: dict[Value, Value], spans: Mapping[tuple[int, int], Value]) -> Call:
    """One call for two; what they give become twins."""
    function, args, kwargs = _common(
        (mine.function, mine.args, mine.kwargs), (its.function, its.args, its.kwargs), twins, spans
    )
    twins |= zip(values_in(mine.gives), values_in(its.gives), strict=True)
    return Call(function, args, kwargs, (*mine.reads, *spans.values()), mine.gives)


class _DifferError(Exception):
    """Two recordings differ in more than the number of visible slots."""


def _common(mine: Any, its: Any, twins: Mapping[Value, Value], spans: Mapping[tuple[int, int], Value]) -> Any:
    """What two arguments have in common: a value in the place of two numbers that `spans` names."""
    if type(mine) is not type(its):
        raise _DifferError
    match mine:
        case Value() if twins.get(mine) is its:
            return mine
        case tuple() | list() if len(mine) == len(its):
            return type(mine)(_common(x, y, twins, spans) for x, y in zip(mine, its, strict=True))
        case dict() if mine.keys() == its.keys():
            return {key: _common(value, its[key], twins, spans) for key, value in mine.items()}
        case slice():
            return slice(*_common((mine.start, mine.stop, mine.step), (its.start, its.stop, its.step), twins, spans))
        case int() if type(mine) is int and (mine, its) in spans:
            return spans[mine, its]
    if mine != its:
        raise _DifferError
    return mine
