"""The whole numbers that a field of a description takes, read from its type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic.fields import FieldInfo

from anyformer.describe import Named, Value
from anyformer.dims import LARGEST
from anyformer.parts.layers.order import MOST_LAYERS, LayerOrder


@dataclass(frozen=True)
class Bounds:
    """Whole numbers from `least` to `greatest`, multiples of `step`."""

    least: int = 0
    greatest: int = LARGEST
    step: int = 1


def bounds_of(owner: Any, name: str) -> Bounds | None:
    """The bounds of the whole numbers in a field of a value; None where it takes some alone."""
    field = type(owner).model_fields[name] if isinstance(owner, Value) else None
    if field is None:
        return None
    if any(isinstance(each, LayerOrder) for each in field.metadata):
        return Bounds(1, MOST_LAYERS)
    found = list(_whole(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation))
    return found[0] if len(found) == 1 else None


def _whole(annotation: Any, *metadata: Any) -> Iterator[Bounds]:
    """The bounds of every `int` in a type; None of one that a `Literal` lists."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is int:
        yield _bounds(metadata)
    elif origin is Annotated:
        fields = [each for item in inner[1:] for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
        yield from _whole(inner[0], *metadata, *fields)
    elif origin in (Union, UnionType):
        for each in inner:
            yield from _whole(each, *metadata)
    elif origin is tuple or origin is Named:
        yield from (each for item in dict.fromkeys(inner) for each in _whole(item))


def _bounds(metadata: tuple[Any, ...]) -> Bounds:
    least, greatest, step = -LARGEST, LARGEST, 1
    for each in metadata:
        match each:
            case Ge(ge=bound):
                least = max(least, bound)
            case Gt(gt=bound):
                least = max(least, bound + 1)
            case Le(le=bound):
                greatest = min(greatest, bound)
            case Lt(lt=bound):
                greatest = min(greatest, bound - 1)
            case MultipleOf(multiple_of=factor):
                step = factor
    return Bounds(least, greatest, step)
