"""A value in one line: its kind and what differs from the defaults of its class."""

from __future__ import annotations

from anyformer.describe.value import Value


def brief(value: Value) -> str:
    """`attention(heads=6, rotary)`: nested values likewise; a part called like its field is not named twice."""
    words = facts(value)
    kind = str(getattr(value, "kind", type(value).__name__.lower()))
    return f"{kind}({', '.join(words)})" if words else kind


def facts(value: Value) -> list[str]:
    """What `brief` writes in parentheses."""
    words: list[str] = []
    for name, field in type(value).model_fields.items():
        item = getattr(value, name)
        if name == "kind" or item is None or item == field.default:
            continue
        shown = _shown(item)
        words.append(shown if shown == name else f"{name}={shown}")
    return words


def _shown(item: object) -> str:
    if isinstance(item, Value):
        return brief(item)
    if isinstance(item, tuple):
        return ",".join(_shown(each) for each in item)
    return f"{item:g}" if isinstance(item, float) else str(item)
