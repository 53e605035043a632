"""Sketches of parts for pictures: a title, and the flow of data from bottom to top.

A flow is made of cells, in series (`chain`) and side by side (`fan`). A part says it of itself in `sketch`, so that whoever
draws needs to know no part; one that says nothing is drawn as a box with its title and what differs from its defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import Value

Tone = Literal["weight", "norm", "position", "mix", "choice", "memory", "pointwise"]
"""What a cell does: multiplies by weights, normalises, tells positions apart, mixes positions, chooses, remembers, or acts on
each feature by itself."""
Join = Literal["", "×", "+", "−"]
LISTED = 4
"""So many numbers of a field are written out; of more their count."""


@dataclass(frozen=True)
class Cell:
    """One computation in words; with `count`, made of so many equal ones (heads, experts), drawn as ticks."""

    text: str
    tone: Tone = "weight"
    count: int = 0
    groups: int = 0
    """Ticks stand in so many groups: query heads that share keys."""
    used: int = 0
    """So many ticks are filled: experts that a token passes."""


@dataclass(frozen=True)
class Chain:
    """One after the other, upwards."""

    items: tuple[Flow, ...]


@dataclass(frozen=True)
class Fan:
    """Flows side by side that read the same input; `join`: the operation that joins their outputs."""

    items: tuple[Flow, ...]
    join: Join = ""


@dataclass(frozen=True)
class Given:
    """A flow that does not read the stream: it reads the source, a memory or a table."""

    flow: Flow
    source: bool = False


Flow = Cell | Chain | Fan | Given


@dataclass(frozen=True)
class Sketch:
    """A part as it is drawn: a box with a title, lines of facts below it, and the flow inside."""

    title: str
    facts: tuple[str, ...] = ()
    flow: Flow | None = None


class Drawn(Value):
    """A description that can be drawn."""

    def sketch(self, width: int) -> Sketch:
        """Its picture in a stream of D = `width`; by default the class's name and what differs from its defaults."""
        title = re.sub(r"(?<=[a-z])[A-Z]", lambda letter: f" {letter[0].lower()}", type(self).__name__)
        return Sketch(title, facts_of(self))


def chain(*items: Flow | None) -> Flow:
    """The items that are not None, one after the other."""
    there: list[Flow] = []
    for item in items:
        there += item.items if isinstance(item, Chain) else [] if item is None else [item]
    return there[0] if len(there) == 1 else Chain(tuple(there))


def fan(*items: Flow | None, join: Join = "") -> Flow:
    """The items that are not None, side by side."""
    there = tuple(item for item in items if item is not None)
    return there[0] if len(there) == 1 else Fan(there, join)


def biases(named: Sequence[str], every: int) -> tuple[str, ...]:
    """Which of so many projections add a bias, as a fact: `biases` if all do, nothing if none does."""
    if not named:
        return ()
    return ("biases",) if len(named) == every else (f"bias on {', '.join(named)}".replace("_", " "),)


def number(value: float) -> str:
    """`14,336`, `500,000`, `0.22`."""
    return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def facts_of(value: Value) -> tuple[str, ...]:
    """The fields that differ from their defaults, one fact each: `span 256`."""
    pairs = ((name, getattr(value, name), field.default) for name, field in type(value).model_fields.items())
    return tuple(_fact(_plain(name), item) for name, item, default in pairs if name != "kind" and item != default)


def _fact(name: str, item: object) -> str:
    if isinstance(item, bool):
        return name if item else f"not {name}"
    return f"{name} {_said(item)}"


def words(value: Value) -> str:
    """A small value in one line: `channel decay, rank 128`."""
    kind = getattr(value, "kind", None)
    return ", ".join([*([] if kind is None else [_plain(str(kind))]), *facts_of(value)])


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _said(item: object) -> str:
    if isinstance(item, Value):
        return f"({words(item)})"
    if isinstance(item, tuple):
        return f"({len(item)} values)" if len(item) > LISTED else ", ".join(map(_said, item))
    return number(item) if isinstance(item, int | float) else _plain(str(item))
