"""A value in one line: its kind and what differs from the defaults of its class."""

from __future__ import annotations

import re

from anyformer.describe.part_set import Part, PartSet
from anyformer.describe.value import Value

WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The gaps between the words of a class's name."""


def brief(value: Value) -> str:
    """`attention(heads=6, rotary)`, nested values included; a part with the name of its field is written once, and one that a
    single value describes is that value."""
    if (short := _short(value)) is not None:
        return _shown(getattr(value, short))
    kind = str(getattr(value, "kind", WORD.sub("_", type(value).__name__).lower()))
    words = facts(value)
    return f"{kind}({', '.join(words)})" if words else kind


def facts(value: Value) -> list[str]:
    """The fields that differ from their defaults, as `brief` writes them in parentheses; those of a slot stand among them."""
    words: list[str] = []
    for name, field in type(value).model_fields.items():
        item = getattr(value, name)
        if name == "kind" or item is None or item == field.default:
            continue
        if isinstance(item, PartSet):
            words += [_named(part.name, part) for part in item.values()]
        elif name in type(value).through and type(item) is type(field.default):
            words += facts(item)
        else:
            words.append(_named(name, item))
    return words


def _named(name: str, item: object) -> str:
    """An item under its name: `heads=6`, `rotary(theta=1e4)`."""
    shown = _shown(item)
    if isinstance(item, Value) and "kind" not in type(item).model_fields and _short(item) is None:
        # A part of one kind only is known by its field.
        shown = f"{name}({', '.join(facts(item))})" if facts(item) else name
    return shown if shown == name or shown.startswith(f"{name}(") else f"{name}={shown}"


def _short(value: Value) -> str | None:
    """The field that alone describes the value: no other differs from its default."""
    if not isinstance(value, Part) or value.short is None:
        return None
    told = [name for name, field in type(value).model_fields.items() if getattr(value, name) != field.default]
    return value.short if told == [value.short] else None


def _shown(item: object) -> str:
    if isinstance(item, Value):
        return brief(item)
    if isinstance(item, tuple):
        return ",".join(map(_shown, item))
    if isinstance(item, float):
        return f"{item:.0f}" if item.is_integer() and abs(item) < 1e15 else f"{item:g}"
    return str(item)
