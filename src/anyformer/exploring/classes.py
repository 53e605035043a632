"""What the classes of descriptions say of themselves: a sentence, their papers, their fields, and the kinds that fit a slot."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from anyformer.atlas.papers import papers
from anyformer.describe import Choice, Named, Part, PartSet, Value
from anyformer.describe.docstrings import field_docstrings, first_sentence
from anyformer.describe.part_set import members_of
from anyformer.describe.problems import bare_type, classes_of, kinds_of

SCALARS: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "text"}


@dataclass(frozen=True)
class SlotKinds:
    """What fits a slot: the name of the slot, and the classes by the word that chooses them; `named`: whether a part is set at
    PATH.WORD, as in a set of parts, and not as PATH.kind=WORD."""

    name: str
    classes: Mapping[str, type[BaseModel]]
    named: bool = False


def class_facts(kind: type[Value]) -> dict[str, Any]:
    """What a class says: module, kind, sentence, docstring, papers, fields."""
    text = cleandoc(kind.__doc__ or "")
    fields = {name: field_facts(kind, name) for name in kind.model_fields if name != "kind"}
    return {
        "module": kind.__module__, "kind": word_of(kind), "sentence": first_sentence(kind), "text": text,
        "papers": list(papers_of(text)), "fields": fields,
    }  # fmt: skip


def word_of(kind: type[BaseModel]) -> str | None:
    """The word that chooses a class among others: its kind, or its name in a set of parts; None where it has neither."""
    field = kind.model_fields.get("kind")
    if field is None:
        return vars(kind).get("name") if issubclass(kind, Part) else None
    return field.default if isinstance(field.default, str) else None


def papers_of(text: str) -> Iterator[dict[str, str]]:
    """The papers that a text names, as plain data."""
    return ({"said": paper.said, "arxiv": paper.arxiv, "url": paper.url} for paper in papers(text))


def field_facts(kind: type[Value], name: str) -> dict[str, Any]:
    """What a field takes: type, choices, bounds, default, slot, and the docstring under it; what does not apply is left out."""
    field = kind.model_fields[name]
    bare = bare_type(field.annotation)
    slot, choices = slot_of(kind, name), _choices(field)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    scalar = isinstance(default, bool | int | float | str)
    facts = {
        "type": _type_of(bare, slot, choices),
        "optional": type(None) in get_args(field.annotation),
        "required": field.is_required(),
        "doc": field_docstrings(kind).get(name, ""),
    }
    more = {"default": default if scalar else None, "choices": choices, "slot": None if slot is None else slot.name}
    return facts | _bounds(field) | {key: item for key, item in more.items() if item is not None}


def _type_of(bare: Any, slot: SlotKinds | None, choices: Sequence[Any] | None) -> str:
    if slot is not None and slot.named:
        return "parts"
    origin = get_origin(bare)
    if origin is tuple:
        return "list"
    if origin is Named:
        return "table"
    if slot is not None:
        return "part"
    scalars = [SCALARS[bare_type(each)] for each in _alternatives(bare) if bare_type(each) in SCALARS]
    if choices and not scalars:
        return "choice"
    return "choice" if choices and scalars == ["text"] else scalars[0] if scalars else "table"


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, or the only one."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _choices(field: FieldInfo) -> list[Any] | None:
    """The values that a field may be chosen from; None where it takes others only."""
    found: list[Any] = []
    for each in (field.annotation, *_annotated(field.annotation)):
        for alternative in _alternatives(bare_type(each)):
            if get_origin(bare := bare_type(alternative)) is Literal:
                found += get_args(bare)
    found += [word for each in _metadata(field) if isinstance(each, Choice) for word in each.table()]
    return list(dict.fromkeys(found)) or None


def _bounds(field: FieldInfo) -> dict[str, Any]:
    """The least and greatest numbers of a field, by `ge`, `gt`, `le` and `lt`."""
    found: dict[str, Any] = {}
    for each in _metadata(field):
        match each:
            case Ge():
                found["ge"] = each.ge
            case Gt():
                found["gt"] = each.gt
            case Le():
                found["le"] = each.le
            case Lt():
                found["lt"] = each.lt
    return found


def _metadata(field: FieldInfo) -> Iterator[Any]:
    """What is annotated to a field's type, that of unions' members too."""
    for each in (*field.metadata, *(item for part in _annotated(field.annotation) for item in part.__metadata__)):
        yield each
        if isinstance(each, FieldInfo):
            yield from each.metadata


def _annotated(annotation: Any) -> Iterator[Any]:
    for each in (annotation, *_alternatives(annotation)):
        if get_origin(each) is Annotated:
            yield each


def slot_of(kind: type[Value], name: str) -> SlotKinds | None:
    """The slot that a field is: of one part, of several in a row or by names, or of a set; None of numbers and words."""
    bare = bare_type(kind.model_fields[name].annotation)
    origin, items = get_origin(bare), get_args(bare)
    if origin is PartSet:
        base = items[0]
        return SlotKinds(base.__name__, dict(sorted(members_of(base).items())), named=True)
    if origin in (tuple, Named) and items:
        bare = bare_type(items[0])
    classes = classes_of(bare)
    if not classes:
        return None
    found = kinds_of(classes) or dict.fromkeys(("",), classes[0])
    return SlotKinds(" | ".join(each.__name__ for each in classes), found)


@cache
def all_slots() -> Mapping[str, SlotKinds]:
    """Every slot of every description by its name."""
    from anyformer.model import Architecture

    found: dict[str, SlotKinds] = {}
    waiting: list[type[BaseModel]] = [Architecture]
    seen = set[type[BaseModel]]()
    while waiting:
        kind = waiting.pop()
        if kind in seen or not issubclass(kind, Value):
            continue
        seen.add(kind)
        for name in kind.model_fields:
            if (slot := slot_of(kind, name)) is not None:
                found.setdefault(slot.name, slot)
                waiting += slot.classes.values()
    return dict(sorted(found.items()))


@cache
def kinds() -> dict[str, Any]:
    """What fits every slot: per kind its sentence, and the fields that it needs."""
    return {
        name: {"named": slot.named, "kinds": [_kind(word, each) for word, each in slot.classes.items()]}
        for name, slot in all_slots().items()
    }


def _kind(word: str, kind: type[BaseModel]) -> dict[str, Any]:
    assert issubclass(kind, Value)
    required = [name for name, field in kind.model_fields.items() if field.is_required() and name != "kind"]
    needs = [{"name": name, **field_facts(kind, name)} for name in required]
    return {"kind": word, "class": kind.__name__, "sentence": first_sentence(kind), "needs": needs}
