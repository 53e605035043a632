"""An architecture a whole number of times narrower, with fewer heads and the same depth."""

from __future__ import annotations

from typing import Any

from anyformer.model import Architecture

WIDTHS = ("width", "embedding_width")
"""Fields of features, those of feed-forward networks too."""


def narrowed(architecture: Architecture, times: int) -> Architecture:
    """Every width divided by `times` and rounded down, and every number of heads, to at least one head that divides the width.

    The width of a head stays where it is not written out; `DescriptionError` where a part does not fit the new width.
    """
    width = max(1, architecture.width // times)
    return Architecture.parse(_divided(architecture.plain(), times, width), where=f"the architecture, {times} times narrower")


def _divided(node: Any, times: int, width: int) -> Any:
    """A copy of plain data with smaller sizes."""
    if isinstance(node, list):
        return [_divided(item, times, width) for item in node]
    if not isinstance(node, dict):
        return node
    small = {name: _divided(item, times, width) for name, item in node.items()}
    small |= {name: max(1, node[name] // times) for name in WIDTHS if type(node.get(name)) is int}
    if type(node.get("heads")) is int:
        small["heads"] = _divisor(width, node["heads"] // times)
        if type(node.get("kv_heads")) is int:
            small["kv_heads"] = _divisor(small["heads"], max(1, node["kv_heads"] * small["heads"] // node["heads"]))
    return small


def _divisor(number: int, most: int) -> int:
    """The greatest divisor of `number` that is at most `most`, or 1."""
    return max((divisor for divisor in range(1, most + 1) if number % divisor == 0), default=1)
