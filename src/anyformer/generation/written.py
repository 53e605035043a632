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
    """`step` reads the `lasting` views of the memory `held`; both come before what is new in each repetition."""

    views: tuple[Call, ...]
    held: tuple[Value, ...]
    lasting: tuple[Value, ...]
    step: Callable[..., Tensor]

    def __call__(self, *kept: Tensor) -> Repeat:
        """The step for a text, whose tensors are kept."""
        return partial(self.step, *kept, *self._made(*kept))

    @cached_property
    def _made(self) -> Callable[..., tuple[Tensor, ...]]:
        return program(self.views, self.held, self.lasting)


@dataclass(frozen=True, eq=False)
class Span:
    """A step whose program is the same for `few` and for `many` visible slots, which its views alone depend on."""

    few: int
    many: int
    made: Callable[..., tuple[Tensor, ...]]
    step: Callable[..., Tensor]

    def at(self, visible: int) -> Bind:
        """The step with a number of visible slots between those two."""
        return lambda *kept: partial(self.step, *kept, *self.made(*kept, visible))


def spanning(few: tuple[int, Written], many: tuple[int, Written]) -> Span | None:
    """One program for two with so many visible slots; None where more differs than the number of slots that views show."""
    (a, one), (b, other) = few, many
    if not _same_program(one.step, other.step) or len(one.held) != len(other.held) or len(one.views) != len(other.views):
        return None
    visible, twins = Value(), dict(zip(one.held, other.held, strict=True))
    views = list[Call]()
    try:
        for mine, its in zip(one.views, other.views, strict=True):
            function, args, kwargs = _common(
                (mine.function, mine.args, mine.kwargs), (its.function, its.args, its.kwargs), twins, {(a, b): visible}
            )
            twins |= zip(values_in(mine.gives), values_in(its.gives), strict=False)
            views.append(Call(function, args, kwargs, (*mine.reads, visible), mine.gives))
    except _DifferError:
        return None
    return Span(a, b, program(views, [*one.held, visible], one.lasting), one.step)


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


def _same_program(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two written functions have the same lines and the same constants."""
    mine, its = ({name: value for name, value in each.__globals__.items() if name[0] == "c"} for each in (one, other))
    return one.__code__ == other.__code__ and mine.keys() == its.keys() and all(_same(mine[name], its[name]) for name in mine)


def _same(mine: Any, its: Any) -> bool:
    return mine is its or (type(mine) is type(its) and bool(mine == its))
