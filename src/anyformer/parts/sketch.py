"""Sketches of parts for pictures: a title, and the flow of data from bottom to top.

A flow is made of cells, in series (`chain`) and side by side (`fan`). A part describes itself in `sketch`, so that the drawing
code knows no part; one without a `sketch` is drawn as a box with its title and the fields that differ from their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import Value

Tone = Literal["weight", "norm", "position", "mix", "choice", "memory", "pointwise"]
"""The work of a cell: it multiplies by weights, normalises, tells positions apart, mixes positions, chooses, remembers, or
acts on each feature by itself."""
Join = Literal["", "×", "+", "−"]
LISTED = 4
"""Most values of a field that are written out; a longer field is drawn as its count."""


@dataclass(frozen=True)
class Cell:
    """One computation in words; `count`: how many equal units (heads, experts) it is made of, drawn as ticks."""

    text: str
    tone: Tone = "weight"
    count: int = 0
    groups: int = 0
    """Groups of the ticks: query heads that share keys."""
    used: int = 0
    """Ticks drawn filled: experts that a token passes."""


@dataclass(frozen=True)
class Chain:
    """Flows one after the other, upwards."""

    items: tuple[Flow, ...]


@dataclass(frozen=True)
class Fan:
    """Flows side by side that read the same input; `join`: the operation that joins their outputs."""

    items: tuple[Flow, ...]
    join: Join = ""


@dataclass(frozen=True)
class SideInput:
    """A flow that does not read the stream: it reads the source, a memory or a table."""

    flow: Flow
    source: bool = False


Flow = Cell | Chain | Fan | SideInput


@dataclass(frozen=True)
class Sketch:
    """A part as it is drawn: a box with a title, lines of facts below it, and the flow inside."""

    title: str
    facts: tuple[str, ...] = ()
    flow: Flow | None = None


class Drawn(Value):
    """A description that can be drawn."""

    def sketch(self, width: int) -> Sketch:
        """Its sketch in a stream of D = `width`; by default the class's name and the fields that differ from their defaults."""
        title = re.sub(r"(?<=[a-z])[A-Z]", lambda letter: f" {letter[0].lower()}", type(self).__name__)
        return Sketch(title, facts_of(self))


def chain(*items: Flow | None) -> Flow:
    """The items that are not None, one after the other."""
    flows: list[Flow] = []
    for item in items:
        flows += item.items if isinstance(item, Chain) else [] if item is None else [item]
    return flows[0] if len(flows) == 1 else Chain(tuple(flows))


def fan(*items: Flow | None, join: Join = "") -> Flow:
    """The items that are not None, side by side."""
    flows = tuple(item for item in items if item is not None)
    return flows[0] if len(flows) == 1 else Fan(flows, join)


def biases(biased: Sequence[str], projections: int) -> tuple[str, ...]:
    """The fact that names the projections with a bias: `biases` if all of them have one, no fact if none has."""
    if not biased:
        return ()
    return ("biases",) if len(biased) == projections else (f"bias on {', '.join(biased)}".replace("_", " "),)


def number(value: float) -> str:
    """A number for people: `14,336`, `500,000`, `0.22`."""
    return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def facts_of(value: Value) -> tuple[str, ...]:
    """The fields that differ from their defaults, one fact each: `span 256`."""
    pairs = ((name, getattr(value, name), field.default) for name, field in type(value).model_fields.items())
    return tuple(_fact(_plain(name), item) for name, item, default in pairs if name != "kind" and item != default)


def _fact(name: str, item: object) -> str:
    if isinstance(item, bool):
        return name if item else f"not {name}"
    return f"{name} {_text(item)}"


def words(value: Value) -> str:
    """A small value in one line: `channel decay, rank 128`."""
    kind = getattr(value, "kind", None)
    return ", ".join([*([] if kind is None else [_plain(str(kind))]), *facts_of(value)])


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _text(item: object) -> str:
    if isinstance(item, Value):
        return f"({words(item)})"
    if isinstance(item, tuple):
        return f"({len(item)} values)" if len(item) > LISTED else ", ".join(map(_text, item))
    return number(item) if isinstance(item, int | float) else _plain(str(item))
