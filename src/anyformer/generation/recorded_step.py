"""A recorded step as a program; and two of them that differ in the number of visible slots alone, as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from anyformer.generation.program import RecordedCall, RecordedTensor, found_in, program

Repeat = Callable[..., Tensor]
"""The step for tensors that are new in every repetition."""
Bind = Callable[..., Repeat]
"""The step of a text, whose tensors take the places of those kept."""


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """`calls` read views of what is `held`, which `views` make, and what is `given` new in every repetition."""

    views: tuple[RecordedCall, ...]
    calls: tuple[RecordedCall, ...]
    held: tuple[RecordedTensor, ...]
    given: tuple[RecordedTensor, ...]
    result: RecordedTensor

    def __call__(self, *kept: Any) -> Repeat:
        """The step for a text, whose tensors are kept."""
        return partial(self._step, *kept, *self._made(*kept))

    @property
    def _lasting(self) -> tuple[RecordedTensor, ...]:
        return tuple(value for call in self.views for value in found_in(call.gives, RecordedTensor))

    @cached_property
    def _step(self) -> Callable[..., Tensor]:
        return program(self.calls, [*self.held, *self._lasting, *self.given], self.result)

    @cached_property
    def _made(self) -> Callable[..., tuple[Tensor, ...]]:
        return program(self.views, self.held, self._lasting)


def spanning(few: tuple[int, RecordedStep], many: tuple[int, RecordedStep]) -> RecordedStep | None:
    """One step for two with so many visible slots, which is told that number behind what is kept: any between those two.

    None where the two differ in more than that number.
    """
    (a, one), (b, other) = few, many
    visible = RecordedTensor()
    twins = dict(zip((*one.held, *one.given), (*other.held, *other.given), strict=False))
    try:
        views, calls = (
            tuple(_alike(mine, its, twins, (a, b), visible) for mine, its in zip(first, second, strict=True))
            for first, second in ((one.views, other.views), (one.calls, other.calls))
        )
    except (_DifferError, ValueError):
        return None
    if twins.get(one.result) is not other.result:
        return None
    return RecordedStep(views, calls, (*one.held, visible), one.given, one.result)


def _alike(
    mine: RecordedCall,
    its: RecordedCall,
    twins: dict[RecordedTensor, RecordedTensor],
    sizes: tuple[int, int],
    visible: RecordedTensor,
) -> RecordedCall:
    """One call for two; what they give become twins."""

    def common(x: Any, y: Any) -> Any:
        if type(x) is not type(y):
            raise _DifferError
        match x:
            case RecordedTensor() if twins.get(x) is y:
                return x
            case tuple() | list() if len(x) == len(y):
                return type(x)(common(*each) for each in zip(x, y, strict=True))
            case dict() if x.keys() == y.keys():
                return {key: common(value, y[key]) for key, value in x.items()}
            case slice():
                return slice(*common((x.start, x.stop, x.step), (y.start, y.stop, y.step)))
            case int() if type(x) is int and (x, y) == sizes:
                return visible
        if x != y:
            raise _DifferError
        return x

    function, args, kwargs = common((mine.function, mine.args, mine.kwargs), (its.function, its.args, its.kwargs))
    twins |= zip(found_in(mine.gives, RecordedTensor), found_in(its.gives, RecordedTensor), strict=True)
    return RecordedCall(function, args, kwargs, (*mine.reads, visible), mine.gives)


class _DifferError(Exception):
    """Two recordings differ in more than the number of visible slots."""
