"""A value in one line: its kind and what differs from the defaults of its class."""

from __future__ import annotations

import re

from anyformer.describe.value import Value

WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The gaps between the words of a class's name."""


def brief(value: Value) -> str:
    """`attention(heads=6, rotary)`, nested values included; a part with the name of its field is written once."""
    kind = str(getattr(value, "kind", WORD.sub("_", type(value).__name__).lower()))
    words = facts(value)
    return f"{kind}({', '.join(words)})" if words else kind


def facts(value: Value) -> list[str]:
    """The fields that differ from their defaults, as `brief` writes them in parentheses."""
    words: list[str] = []
    for name, field in type(value).model_fields.items():
        item = getattr(value, name)
        if name == "kind" or item is None or item == field.default:
            continue
        shown = _shown(item)
        if isinstance(item, Value) and "kind" not in type(item).model_fields:
            # A part of one kind only is known by its field.
            shown = f"{name}({', '.join(facts(item))})" if facts(item) else name
        words.append(shown if shown == name or shown.startswith(f"{name}(") else f"{name}={shown}")
    return words


def _shown(item: object) -> str:
    if isinstance(item, Value):
        return brief(item)
    if isinstance(item, tuple):
        return ",".join(map(_shown, item))
    if isinstance(item, float):
        return f"{item:.0f}" if item.is_integer() and abs(item) < 1e15 else f"{item:g}"
    return str(item)
