"""An architecture whose whole numbers are traced, and the context in which its declared costs run on them.

Validation turns numbers into plain ones, so traced ones are put in behind it, and every check of a description runs on them
again: what it compares becomes a guard.
"""

from __future__ import annotations

import builtins
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel
from pydantic.functional_validators import AfterValidator

from anyformer.atlas.evaluator_number import Traced
from anyformer.atlas.evaluator_pairs import Call, PairFormula, pair_formula
from anyformer.describe import Named, PartSet, Value
from anyformer.parts.layers.order import MOST_LAYERS, LayerOrder, count_layers
from anyformer.parts.masks.pairs import count_pairs

Keys = tuple[str | int, ...]
Take = Callable[[Keys, int], Any]
"""The traced number in the place of a number of a description; itself if it is to stay."""
_max, _min, _isfinite = builtins.max, builtins.min, math.isfinite


class TracedOrder(str):
    """An order of layers whose numbers are traced: `counts` of the layers of every variant."""

    counts: Mapping[str, Any]

    @classmethod
    def of(cls, order: str, take: Callable[[int, int], Any]) -> TracedOrder:
        """The order, with a traced number for the k-th that is written in it."""
        made, seen = cls(order), 0
        levels: list[list[dict[str, Any]]] = [[]]
        for name, opens, closes, times in re.findall(r"([a-z]\w*)|(\()|(\))|\*\s*(\d+)", re.sub(r"\*\s*", "*", order)):
            if opens:
                levels.append([])
            elif closes:
                group = levels.pop()
                levels[-1].append(_added(group))
            elif times:
                number = take(seen, int(times))
                levels[-1][-1] = {name: count * number for name, count in levels[-1][-1].items()}
                seen += 1
            else:
                levels[-1].append({name: 1})
        made.counts = _added(levels[0])
        assert sum(made.counts.values()) <= MOST_LAYERS, "the order was checked"
        return made


def _added(counts: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: sum(each.get(name, 0) for each in counts) for name in dict.fromkeys(name for each in counts for name in each)}


def substituted(whole: Any, take: Take, at: Keys = ()) -> Any:
    """A copy of a description with numbers that `take` gives, its checks run on them."""
    if type(whole) is int:
        return take(at, whole)
    if isinstance(whole, Value):
        fields = {name: substituted(item, take, (*at, name)) for name, item in vars(whole).items()}
        for name in orders(whole):
            fields[name] = TracedOrder.of(fields[name], partial(_taken, take, (*at, name)))
        return unvalidated(type(whole), fields)
    if isinstance(whole, PartSet):
        return PartSet(*(substituted(part, take, (*at, name)) for name, part in whole.items()), base=whole.base)
    if isinstance(whole, Named):
        return Named({name: substituted(item, take, (*at, name)) for name, item in whole.items()})
    if isinstance(whole, tuple):
        return tuple(substituted(item, take, (*at, i)) for i, item in enumerate(whole))
    return whole


def _taken(take: Take, at: Keys, number: int, value: int) -> Any:
    return take((*at, number), value)


def orders(whole: Value) -> Iterator[str]:
    """The fields of a description that hold an order of layers whose numbers may change."""
    for name, field in type(whole).model_fields.items():
        if any(isinstance(each, LayerOrder) and each.alike(whole) for each in field.metadata):
            yield name


def unvalidated(of: type[Value], fields: Mapping[str, Any]) -> Any:
    """A value with traced numbers, which pydantic would make plain: the checks of its class run on them."""
    made = BaseModel.model_construct.__func__(of, **fields)  # type: ignore[attr-defined]
    decorators = of.__pydantic_decorators__
    for name, field in of.model_fields.items():
        for each in field.metadata:
            if isinstance(each, AfterValidator) and traces(getattr(made, name)):
                each.func(getattr(made, name))  # type: ignore[call-arg]
    for check in decorators.field_validators.values():
        for name in check.info.fields:
            if traces(getattr(made, name)):
                check.func(getattr(made, name))
    for rule in decorators.model_validators.values():
        if rule.info.mode == "after":
            rule.func(made)
    return made


def traces(whole: Any) -> bool:
    """Whether a value holds a traced number."""
    if type(whole) is Traced or type(whole) is TracedOrder:
        return True
    if isinstance(whole, Value):
        return any(map(traces, vars(whole).values()))
    if isinstance(whole, Mapping):
        return any(map(traces, whole.values()))
    return isinstance(whole, tuple) and any(map(traces, whole))


def untraced(whole: Any) -> Any:
    """The plain value of a description with traced numbers."""
    if type(whole) is Traced:
        return whole.value
    if isinstance(whole, Value):
        return type(whole)(**{name: untraced(item) for name, item in vars(whole).items()})
    return tuple(map(untraced, whole)) if isinstance(whole, tuple) else whole


@contextmanager
def tracing() -> Iterator[None]:
    """While it lasts, declared costs may run on traced numbers: `max`, `min`, counts of layers and of pairs know them."""
    validated = Value.__init__

    def init(self: Value, /, **fields: Any) -> None:
        if not any(map(traces, fields.values())):
            validated(self, **fields)
            return
        made = unvalidated(type(self), fields)
        for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
            object.__setattr__(self, slot, getattr(made, slot))

    with ExitStack() as stack:
        stack.enter_context(patch.object(Value, "__init__", init))
        stack.enter_context(patch.object(builtins, "max", _choosing("max", _max)))
        stack.enter_context(patch.object(builtins, "min", _choosing("min", _min)))
        stack.enter_context(patch.object(math, "isfinite", _finite))
        stack.enter_context(patch("anyformer.parts.layers.stack.count_layers", _layers(count_layers)))
        stack.enter_context(patch("anyformer.parts.masks.mask.count_pairs", _pairs(count_pairs)))
        yield


def _choosing(operator: str, chosen: Callable[..., Any]) -> Callable[..., Any]:
    """`max` or `min`, an operation where a number is traced, not a choice between two."""

    def choose(*given: Any, **more: Any) -> Any:
        items = given if len(given) > 1 else tuple(given[0]) if given else ()
        if not (set(more) <= {"default"} and items and any(type(item) is Traced for item in items)):
            return chosen(items, **more) if len(given) == 1 else chosen(*given, **more)
        result, *rest = items
        for item in rest:
            first = result if type(result) is Traced else item
            result = first.trace.apply(operator, result, item) if type(first) is Traced else chosen(result, item)
        return result

    return choose


def _finite(number: Any) -> bool:
    """`math.isfinite`: a node whose value is not finite has none."""
    return type(number) is Traced or _isfinite(number)


def _layers(counted: Callable[[str], Counter[str]]) -> Callable[[str], Mapping[str, Any]]:
    return lambda order: order.counts if type(order) is TracedOrder else counted(order)


_FORMULAS: dict[Any, PairFormula | None] = {}


def _pairs(counted: Callable[..., int]) -> Callable[..., Any]:
    """`count_pairs`, by its expression where a number is traced and there is one."""

    def count(mask: Any, past: Any, keys: Any, prefix: Any, most: Any = None) -> Any:
        traced = [past, keys, prefix, most]
        if not (any(type(each) is Traced for each in traced) or traces(mask)):
            return counted(mask, past, keys, prefix, most)
        call: Call | None = None
        if type(past) is int and past == 0:
            call = "first"
        elif type(past) is Traced and type(keys) is Traced and keys.at == (past + 1).at:
            call = "next"
        bounded, numbers, same = most is not None, _numbers(mask), untraced(mask)
        whole = type(prefix) is int and prefix == 0
        formula = _formula(counted, same, bounded, call) if whole and call is not None else None
        if formula is None:
            for each in numbers:
                _tied(each)
            return counted(same, *map(_tied, traced))
        return formula.of(keys, [*numbers, most] if bounded else numbers)

    return count


def _tied(number: Any) -> Any:
    """The plain number, for which alone all that follows holds."""
    return number.__index__() if type(number) is Traced else number


def _numbers(mask: Any) -> list[Any]:
    """The whole numbers of a mask, traced or not, in order."""
    if type(mask) is int or type(mask) is Traced:
        return [mask]
    inner = vars(mask).values() if isinstance(mask, Value) else mask if isinstance(mask, tuple) else ()
    return [number for item in inner for number in _numbers(item)]


def _formula(counted: Callable[..., int], mask: Any, bounded: bool, call: Call) -> PairFormula | None:
    """The expression of the pairs of masks of this structure, remembered; `bounded`: by the most of a query, its last size."""
    least = [1 if value else 0 for value in _numbers(mask)] + [1] * bounded
    key = (re.sub(r"\d+", "N", mask.written), tuple(least), bounded, call)
    if key not in _FORMULAS:

        def count(keys: int, sizes: tuple[int, ...]) -> int:
            left = iter(sizes)
            now = substituted(mask, lambda at, value: next(left))
            return counted(now, 0 if call == "first" else keys - 1, keys, 0, next(left, None))

        with patch.object(builtins, "max", _max), patch.object(builtins, "min", _min), suppress(ValueError):
            _FORMULAS[key] = None  # sizes that the mask refuses together
            _FORMULAS[key] = pair_formula(count, least, call)
    return _FORMULAS[key]
