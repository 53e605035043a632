"""Programs: the figures of an architecture as expressions of its numbers, for pages that run no Python.

A program is made by running the declared costs once on traced numbers. Architectures of one structure have one program, and
differ in its inputs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anyformer.atlas.evaluator_bounds import Bounds, bounds_of
from anyformer.atlas.evaluator_number import OPERATORS, Trace, Traced, plain
from anyformer.atlas.evaluator_trace import Keys, TracedOrder, substituted, tracing
from anyformer.describe import Value
from anyformer.model import Architecture
from anyformer.parts.layers.order import MOST_LAYERS
from anyformer.parts.layers.stack import Stack

FORMAT = 1
"""The version of a program as data."""
CALL = ("batch", "length", "source")
"""The numbers of a call, the first inputs of every program."""
_PIECE = re.compile(r"([a-z][a-z0-9_]*)|(\()|(\))|\*\s*(\d+)")


@dataclass(frozen=True)
class Input:
    """A number that may change: the place in the description, the number within a list or an order that stands there."""

    keys: Keys
    at: int | None
    value: int
    bounds: Bounds


@dataclass(frozen=True)
class Program:
    """Nodes, each an operation on earlier ones; guards, the conditions under which the rest holds; figures, the results."""

    nodes: tuple[tuple[Any, ...], ...]
    guards: tuple[tuple[int, bool], ...]
    figures: Any
    """Plain data; {"=": n} stands for the value of node n."""

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"format": FORMAT, "nodes": self.nodes, "guards": self.guards, "figures": self.figures}

    @cached_property
    def json(self) -> str:
        return json.dumps(self.data(), separators=(",", ":")) + "\n"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()[:16]

    def values(self, inputs: Sequence[int]) -> list[Any]:
        """The value of every node; None behind a division by zero."""
        values: list[Any] = []
        for operator, *operands in self.nodes:
            if operator == "input":
                values.append(inputs[operands[0]])
            elif operator in ("int", "float"):
                values.append(operands[0])
            else:
                given = [values[at] for at in operands]
                try:
                    values.append(None if None in given else OPERATORS[operator](*given))
                except ZeroDivisionError:
                    values.append(None)
        return values

    def evaluate(self, inputs: Sequence[int]) -> Any:
        """The figures at these inputs; None where a guard fails, so that the expressions do not hold."""
        values = self.values(inputs)
        if any(values[at] is None or bool(values[at]) != holds for at, holds in self.guards):
            return None
        return filled(self.figures, values)


def filled(figures: Any, values: Sequence[Any]) -> Any:
    """Figures with the values of their nodes."""
    if isinstance(figures, dict):
        if "=" in figures:
            return values[figures["="]]
        return {name: filled(item, values) for name, item in figures.items()}
    return [filled(item, values) for item in figures] if isinstance(figures, list) else figures


@dataclass(frozen=True)
class Traceable:
    """An architecture with traced numbers in its place, the numbers of a call, and all of them as inputs."""

    trace: Trace
    architecture: Architecture
    call: tuple[Any, ...]
    inputs: tuple[Input, ...]


def program_of(architecture: Architecture, figures: Callable[..., Any], call: Sequence[int]) -> tuple[Program, tuple[Input, ...]]:
    """The program of `figures(architecture, batch, length, source)`, plain data, and its inputs behind those of the call."""
    with tracing():
        given = traceable(architecture, call)
        found = figures(given.architecture, *given.call)
        kept = _Kept(given.trace)
        result = kept.figures(found)
        guards = [(kept.node(at), holds) for at, holds in given.trace.guards.items()]
    return Program(tuple(kept.nodes), tuple(guards), result), given.inputs


def traceable(architecture: Architecture, call: Sequence[int]) -> Traceable:
    """The architecture, every whole number of it an input."""
    trace = Trace()
    numbers = [trace.input(i, value) for i, value in enumerate(call)]
    inputs: list[Input] = []

    def take(keys: Keys, value: int) -> Any:
        last = keys[-1]
        place, at = (keys[:-1], last) if isinstance(last, int) else (keys, None)
        bounds = _bounds(architecture, place)
        if bounds is None:
            return value
        inputs.append(Input(place, at, value, bounds))
        number = trace.input(len(call) + len(inputs) - 1, value)
        assert bounds.least <= number <= bounds.greatest, "a valid description, whose bounds become guards"
        assert number % bounds.step == 0, "likewise"
        return number

    traced = substituted(architecture, take)
    return Traceable(trace, traced, tuple(numbers), tuple(inputs))


def _bounds(architecture: Architecture, place: Keys) -> Bounds | None:
    """The bounds of the numbers at a place."""
    *above, name = place
    owner: Any = architecture
    for key in above:
        owner = owner[key] if isinstance(owner, Mapping | tuple) else getattr(owner, str(key))
    if isinstance(owner, Stack) and name == "order":
        return Bounds(1, MOST_LAYERS)
    return bounds_of(owner, str(name))


class _Kept:
    """The nodes that figures and guards need, numbered anew."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.nodes: list[tuple[Any, ...]] = []
        self.numbers: dict[int, int] = {}

    def node(self, at: int) -> int:
        """The new number of a node, behind those of its operands."""
        waiting = [at]
        while waiting:
            now = waiting[-1]
            operator, *operands = self.trace.nodes[now]
            inner = [] if operator in ("input", "int", "float") else [each for each in operands if each not in self.numbers]
            if inner:
                waiting += reversed(inner)
                continue
            waiting.pop()
            if now not in self.numbers:
                self.numbers[now] = len(self.nodes)
                new = operands if operator in ("input", "int", "float") else [self.numbers[each] for each in operands]
                self.nodes.append((operator, *new))
        return self.numbers[at]

    def figures(self, found: Any) -> Any:
        """Plain data, traced numbers as nodes."""
        if type(found) is Traced:
            if self.trace.nodes[found.at][0] in ("int", "float"):
                return found.value
            return {"=": self.node(found.at)}
        if isinstance(found, Mapping):
            return {name: self.figures(item) for name, item in found.items()}
        return [self.figures(item) for item in found] if isinstance(found, list | tuple) else found
