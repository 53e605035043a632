"""Turns pydantic's findings into problems at the user's own path: no union tags, no plumbing."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from anyformer.describe.errors import Problem, did_you_mean
from anyformer.describe.plugins import absent, remedy
from anyformer.describe.spelling import spelled

MOST = 12
"""The most kinds that an error lists."""


def problems_of(error: ValidationError, root: type[BaseModel], data: Any, plugins: Sequence[str] = ()) -> list[Problem]:
    """One problem per finding in `data`, in the order found. `plugins`: those that the data was written with, by name."""
    problems, details = [], error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "too_short" and any(_inside(each["loc"], detail["loc"]) for each in details):
            continue  # what is wrong inside left none, and is said itself
        path, classes = _walked(detail["loc"], root, data)
        problems.append(Problem(path, _message(detail, plugins, list(kinds_of(classes)))))
    return problems


def _inside(location: Sequence[int | str], place: Sequence[int | str]) -> bool:
    """Whether a location lies below a place."""
    return len(location) > len(place) and tuple(location[: len(place)]) == tuple(place)


def kinds_of(classes: Sequence[type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """By kind what may stand where one of these classes may: of a family of parts all of its own."""
    kinds = dict[str, type[BaseModel]]()
    for each in classes:
        registry, own = getattr(each, "kinds", None), each.model_fields.get("kind")
        if own is not None and isinstance(own.default, str):
            kinds[own.default] = each
        elif registry is not None:
            kinds |= {kind: registry[kind] for kind in sorted(registry) if issubclass(registry[kind], each)}
    return kinds


def _message(detail: ErrorDetails, plugins: Sequence[str], kinds: Sequence[str]) -> str:
    given, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "kind_unknown" if lacking := absent(plugins):
            return (
                f"{context['kind']} is no kind without the plug-in{'s' * (len(lacking) > 1)} {' and '.join(lacking)}, with "
                f"which this was written: {remedy(lacking)}"
            )
        case "missing":
            return "is required"
        case "value_error" | "unknown_field" | "given_twice" | "too_great" | "kind_unknown":
            return detail["msg"].removeprefix("Value error, ")
        case "union_tag_invalid":
            known = [tag.strip().strip("'") for tag in context["expected_tags"].split(",")]
            return f"{context['tag']!r} is no kind{did_you_mean(context['tag'], known)}"
        case "kind_missing" | "union_tag_not_found":
            return f"says no kind, got {_shown(given)}: add kind = {_one_of(kinds)}"
        case "kind_table" | "model_attributes_type" | "model_type" if kinds:
            return f"should be a table with kind = {_one_of(kinds)}; got {_shown(given)}"
        case "model_attributes_type" | "model_type":
            return f"should be a table, got {_shown(given)}"
        case "too_short":
            return f"needs {context['min_length']} at least, got {context['actual_length']}"
        case "literal_error":
            return f"should be {context['expected']}, got {_shown(given)}"
        case _:
            text = detail["msg"].removeprefix("Input ")
            return f"{text[:1].lower()}{text[1:]}, got {_shown(given)}"


def _one_of(kinds: Sequence[str]) -> str:
    """Kinds that may be given, `'lora'` or `one of 'dora', 'lora' and 3 more`."""
    if len(kinds) < 2:
        return "".join(map(repr, kinds)) or "..."
    more = f" and {len(kinds) - MOST} more" if len(kinds) > MOST else ""
    return f"one of {', '.join(map(repr, kinds[:MOST]))}{more}"


def _shown(given: Any) -> str:
    try:
        text = repr(given)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(given).__name__})"


def _walked(location: Sequence[int | str], root: type[BaseModel], data: Any) -> tuple[str, list[type[BaseModel]]]:
    """The user's path to a location, and the classes of what may stand there.

    Walks the types, dropping the union tags that pydantic adds and the fields a path may skip.
    """
    words: list[str] = []
    here: Any = root
    for index, step in enumerate(location):
        here = _of_kind(here, data)
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(step))
            absent = index == len(location) - 1 and _child(data, step) is None
            if step not in getattr(here, "through", ()) or absent:
                words.append(str(step))
            here = bare_type(field.annotation) if field else None
        elif (classes := classes_of(here)) and len(classes) > 1:
            # `step` is the tag of a union: it chooses the class and is no part of the user's path.
            here = next((c for c in classes if c.model_fields["kind"].default == step), None)
            continue
        elif (items := get_args(here)) and get_origin(here) not in (Union, types.UnionType):
            # Inside a table of names the step is a name; inside a tuple of parts it is plumbing, of scalars it is an index.
            here = bare_type(items[0])
            here = getattr(here, "members", {}).get(step, here)  # of a set of parts, whose classes have the names
            if isinstance(step, str) or not classes_of(here):
                words.append(str(step))
        else:
            words.append(str(step))
            here = None
        classes = classes_of(here)
        if len(classes) == 1:
            here = classes[0]
        data = _child(data, step)
    return ".".join(words), classes_of(here)


def _of_kind(here: Any, data: Any) -> Any:
    """The class of the data's `kind` in the registry of the base class `here`; `here` itself if there is none."""
    kinds = getattr(here, "kinds", None)
    if isinstance(here, type) and isinstance(data, BaseModel):
        return type(data)
    kind = data.get("kind") if isinstance(data, Mapping) else None
    return kinds.get(kind, here) if kinds is not None and isinstance(kind, str) else here


def _child(data: Any, step: int | str) -> Any:
    """The data at one step of a location; None where there is none."""
    if isinstance(data, BaseModel):
        return getattr(data, str(step), None)
    if isinstance(data, Mapping):
        return data.get(step, next((data[key] for key in data if spelled(str(key), [str(step)]) == str(step)), None))
    return data[step] if isinstance(data, Sequence) and isinstance(step, int) and step < len(data) else None


def bare_type(annotation: Any) -> Any:
    """An annotation without `Annotated` and without `| None`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [item for item in get_args(annotation) if item is not type(None)]
        if len(rest) == 1:
            return bare_type(rest[0])
    return annotation


def classes_of(annotation: Any) -> list[type[BaseModel]]:
    """The described classes that an annotation admits directly (not inside a tuple or table)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        return [item for part in get_args(annotation) for item in classes_of(bare_type(part))]
    return []
