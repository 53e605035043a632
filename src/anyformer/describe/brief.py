"""A value in one line: its kind and what differs from the defaults of its class."""

from __future__ import annotations

import re

from anyformer.describe.value import Value

WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word of a class's name begins."""


def brief(value: Value) -> str:
    """`attention(heads=6, rotary)`: nested values likewise; a part called like its field is not named twice."""
    words = facts(value)
    kind = str(
        getattr(value, "kind", re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(value).__name__).lower())
    )
    return f"{kind}({', '.join(words)})" if words else kind


def facts(value: Value) -> list[str]:
    """What `brief` writes in parentheses."""
    words: list[str] = []
    for name, field in type(value).model_fields.items():
        item = getattr(value, name)
        if name == "kind" or item is None or item == field.default:
            continue
        if isinstance(item, Value) and "kind" not in type(item).model_fields:
            # A part of one kind only is known by its field.
            inner = facts(item)
            words.append(f"{name}({', '.join(inner)})" if inner else name)
            continue
        shown = _shown(item)
        words.append(shown if shown == name or shown.startswith(f"{name}(") else f"{name}={shown}")
    return words


def _shown(item: object) -> str:
    if isinstance(item, Value):
        return brief(item)
    if isinstance(item, tuple):
        return ",".join(_shown(each) for each in item)
    if isinstance(item, float):
        return f"{item:.0f}" if item.is_integer() and abs(item) < 1e15 else f"{item:g}"
    return str(item)
