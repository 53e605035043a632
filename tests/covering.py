"""A few architectures that together have every mechanism of many: what expensive tests ask, the rest being `slow`.

Computed, so that a part that is added is asked without a list being kept: its architecture has what no other has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from anyformer.describe import Value
from anyformer.model import Architecture

Mechanism = tuple[str, ...]
"""A kind of description, one of its fields and what it holds; or a kind alone."""
Of = Callable[[Architecture], frozenset[Mechanism]]
"""What a cover has every one of: `mechanisms` or, for what depends on kinds alone, `kinds`."""


def moved(value: Any) -> Iterator[tuple[type[Value], str, Any]]:
    """(class, "", None) of every value in a description, and (class, field, held) of its fields that are not at defaults."""
    if isinstance(value, Value):
        yield type(value), "", None
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            if inner != field.get_default(call_default_factory=True):
                yield type(value), name, inner
            yield from moved(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from moved(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from moved(inner)


@functools.cache
def mechanisms(architecture: Architecture) -> frozenset[Mechanism]:
    """Every kind in a description, and every field that is not at its default: with what it holds."""
    return frozenset(
        (kind.__name__, name, held(inner)) if name else (kind.__name__,) for kind, name, inner in moved(architecture)
    )


def kinds(architecture: Architecture) -> frozenset[Mechanism]:
    """Every kind in a description."""
    return frozenset(mechanism for mechanism in mechanisms(architecture) if len(mechanism) == 1)


def held(value: Any) -> str:
    """What a field holds, without what is only another number or another name."""
    if isinstance(value, Value):
        return type(value).__name__
    return str(value) if isinstance(value, bool | str | None) else type(value).__name__


def cover(architectures: Mapping[str, Architecture], of: Of = mechanisms) -> frozenset[str]:
    """Names of a few architectures that have every mechanism of all: each next one has the most that are missing."""
    having = {name: of(each) for name, each in architectures.items()}
    missing = frozenset[Mechanism]().union(*having.values())
    chosen = set()
    while missing:
        best = max(having, key=lambda name: len(having[name] & missing))
        chosen.add(best)
        missing -= having[best]
    return frozenset(chosen)


def others_slow(architectures: Mapping[str, Architecture], of: Of = mechanisms) -> list[Any]:
    """The names as parameters of a test: all, of which those outside the cover are `slow`."""
    chosen = cover(architectures, of)
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in architectures]
