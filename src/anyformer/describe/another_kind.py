"""What a part keeps that is given another kind: the fields that both kinds have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from anyformer.describe.part_set import PartSet
from anyformer.describe.problems import bare_type
from anyformer.describe.value import Holder, Value, as_data


def keep_common(table: dict[str, Any], old: Value, part: type[BaseModel]) -> list[str]:
    """Take out of the table of `old` what the class `part` has no field for, or not for such a value; gives the names of what
    was not at its default. What either class has behind a field that paths may skip is the same field to both."""
    left, taken = [], {name for name in type(old).model_fields if any(True for _ in _held(old, name))}
    for name in type(old).model_fields:
        if name == "kind" or name in part.model_fields:
            continue
        table.pop(name, None)
        for inner, item in _held(old, name):
            place = place_in(part, inner)
            if place is None:
                left.append(inner)
            else:
                _put(table, place, item)
                taken.add(place[0])
    for name in _refused(table, part):
        table.pop(name)
        left += [name] if name in taken else []
    return left


def _refused(table: Mapping[str, Any], part: type[BaseModel]) -> list[str]:
    """The fields of a table whose values the class does not take; one that is not there is none of them."""
    try:
        part.model_validate({**table, "kind": part.model_fields["kind"].default})
    except ValidationError as error:
        found = dict.fromkeys(str(detail["loc"][0]) for detail in error.errors(include_url=False) if detail["loc"])
        return [name for name in found if name in table and name != "kind"]
    return []


def _put(table: dict[str, Any], place: Sequence[str], item: Any) -> None:
    *above, last = place
    for key in above:
        table = table.setdefault(key, {})
    table[last] = as_data(item)


def _held(holder: Holder, *only: str) -> Iterator[tuple[str, Any]]:
    """The names and values of what is held, behind fields that paths may skip too, but for what is at its default; `only`: in
    these fields."""
    if isinstance(holder, PartSet):
        yield from holder.items()
    if isinstance(holder, Value):
        for name, field in type(holder).model_fields.items():
            if only and name not in only:
                continue
            item = getattr(holder, name)
            if name in type(holder).through and isinstance(item, Holder):
                yield from _held(item)
            elif name != "kind" and item != field.get_default(call_default_factory=True):
                yield name, item


def place_in(part: type[BaseModel], name: str) -> list[str] | None:
    """The fields that lead to a name in a class, behind those that paths may skip; None where it has none."""
    if name in part.model_fields:
        return [name]
    for field in getattr(part, "through", ()):
        inner = bare_type(part.model_fields[field].annotation)
        if get_origin(inner) is PartSet and name in get_args(inner)[0].members:
            return [field, name]
        if isinstance(inner, type) and issubclass(inner, BaseModel) and (place := place_in(inner, name)):
            return [field, *place]
    return None
