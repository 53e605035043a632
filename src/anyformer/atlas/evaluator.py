"""Programs: the figures of an architecture as expressions of its numbers, for pages that run no Python.

A program is made by running the declared costs once on traced numbers. Architectures of one structure have one program, and
differ in its inputs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from anyformer.atlas.evaluator_absent import FollowingNumber, OptionalNumber, followers, following_number, written_out
from anyformer.atlas.evaluator_bounds import Bounds, bounds_of
from anyformer.atlas.evaluator_figures import PIECES, PricedPiece, sheet_of
from anyformer.atlas.evaluator_kept import KeptNodes
from anyformer.atlas.evaluator_number import OPERATORS, NumberTrace
from anyformer.atlas.evaluator_trace import Keys, substituted, tracing
from anyformer.describe import Named, PartSet, UserError, Value, get
from anyformer.model import Architecture

FORMAT = 1
"""The version of a program as data."""
GREATEST = 2**53 - 1
"""The greatest whole number up to which doubles hold all."""
CALL = ("batch", "length", "source")
"""The numbers of a call, the first inputs of every program."""


@dataclass(frozen=True)
class NumberInput:
    """A number that may change: the place in the description, the number within a list or an order that stands there."""

    keys: Keys
    at: int | None
    value: int
    bounds: Bounds
    absent: bool = False
    """Whether it is left out, so that it is what follows from others."""
    kinds: tuple[str, str] | None = None
    """Of a part that has it: without it, and with it."""


@dataclass(frozen=True)
class ProgramPiece:
    """Figures that hold together: {"=": n} stands for the value of node n; `guards`: what has to be so, by node."""

    guards: tuple[tuple[int, bool], ...]
    figures: Any


@dataclass(frozen=True)
class FigureProgram:
    """Nodes, each an operation on earlier ones, and the pieces that are made of them."""

    nodes: tuple[tuple[Any, ...], ...]
    pieces: tuple[ProgramPiece, ...]
    """Without the first there is no answer."""
    absent: Mapping[int, FollowingNumber] = field(default_factory=dict)
    """What the inputs that may be absent are then; their nodes come before all others."""

    def data(self) -> dict[str, Any]:
        """Plain data, for JSON; whole numbers that no double holds as text."""
        pieces = [{"guards": [[at, int(holds)] for at, holds in each.guards], "figures": each.figures} for each in self.pieces]
        nodes = [("int", str(node[1])) if node[0] == "int" and abs(node[1]) > GREATEST else node for node in self.nodes]
        absent = {str(at): [own.node, [[guard, int(holds)] for guard, holds in own.guards]] for at, own in self.absent.items()}
        return {"format": FORMAT, "nodes": nodes, "pieces": pieces, "absent": absent}

    @cached_property
    def json(self) -> str:
        return json.dumps(self.data(), separators=(",", ":")) + "\n"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()[:16]

    def values(self, inputs: Sequence[float]) -> list[Any]:
        """The value of every node; None of what has none (a division by zero), and of all that is made of it."""
        values: list[Any] = []
        for operator, *operands in self.nodes:
            if operator == "take":
                values.append(inputs[operands[0]])
            elif operator in ("int", "float"):
                values.append(operands[0])
            else:
                values.append(_applied(operator, [values[at] for at in operands]))
        return values

    def completed(self, inputs: Sequence[float | None]) -> list[float] | None:
        """The inputs with what absent ones are, which may be absent ones themselves; None where that has no value."""
        now: list[Any] = list(inputs)
        empty = {at: own for at, own in self.absent.items() if now[at] is None}
        prefix = replace(self, nodes=self.nodes[: max((own.last for own in self.absent.values()), default=-1) + 1])
        for _ in empty:
            values = prefix.values(now)
            for at, own in empty.items():
                now[at] = values[own.node]
        values = prefix.values(now)
        known = all(values[own.node] is not None for own in empty.values())
        return now if known and all(bool(values[at]) == holds for own in empty.values() for at, holds in own.guards) else None

    def held(self, values: Sequence[Any]) -> list[bool]:
        """Whether the guards of every piece hold at these values of the nodes."""
        return [all(values[at] is not None and bool(values[at]) == holds for at, holds in each.guards) for each in self.pieces]

    def evaluate(self, inputs: Sequence[float | None]) -> Any:
        """The figures at these inputs, without the pieces whose guards fail; None where those of the first do."""
        given = self.completed(inputs)
        if given is None:
            return None
        values = self.values(given)
        held = self.held(values)
        if not held[0]:
            return None
        found = [filled(each.figures, values) for each, holds in zip(self.pieces, held, strict=True) if holds]
        return reduce(merged, found)


def _applied(operator: str, given: Sequence[Any]) -> Any:
    try:
        return None if None in given else OPERATORS[operator](*given)
    except (ArithmeticError, TypeError, ValueError):  # a power may be complex, which has no order
        return None


def merged(left: Any, right: Any) -> Any:
    """Two pieces as one: tables by name, lists by place."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **{name: merged(left[name], item) if name in left else item for name, item in right.items()}}
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return list(map(merged, left, right))
    return right


def filled(figures: Any, values: Sequence[Any]) -> Any:
    """Figures with the values of their nodes."""
    if isinstance(figures, dict):
        if "=" in figures:
            return values[figures["="]]
        return {name: filled(item, values) for name, item in figures.items()}
    return [filled(item, values) for item in figures] if isinstance(figures, list) else figures


@dataclass(frozen=True)
class Traceable:
    """An architecture with traced numbers in their places, the numbers of a call, and the inputs behind those."""

    trace: NumberTrace
    architecture: Architecture
    call: tuple[Any, ...]
    inputs: tuple[NumberInput, ...]


def program_of(
    architecture: Architecture, call: Sequence[float], pieces: Mapping[str, PricedPiece] = PIECES
) -> tuple[FigureProgram, tuple[NumberInput, ...]]:
    """The program of an architecture, traced at a call of (batch, length, source), and its inputs behind those of the call.

    Further numbers of the call are given to every piece behind its sheet.
    """
    kept, made = KeptNodes(), list[ProgramPiece]()
    following, inputs = followers(architecture), inputs_of(architecture)
    architecture = written_out(architecture, following)
    with tracing():
        absent = _absent(architecture, call, following, kept)
        for name, priced in pieces.items():
            # A trace of its own, so that what an earlier piece decided, and remembered, is a guard of this one too.
            given = traceable(architecture, call)
            try:
                numbers, more = given.call[: len(CALL)], given.call[len(CALL) :]
                figures = priced(sheet_of(given.architecture, *numbers), *more)
            except UserError:
                if name == "exact":
                    raise
                continue
            kept.begin(given.trace)
            found = kept.figures(figures)
            guards = [(kept.node(at), holds) for at, holds in given.trace.guards.items()]
            made.append(ProgramPiece(tuple(sorted(guards)), found))
    first = set(made[0].guards)
    rest = [replace(each, guards=tuple(guard for guard in each.guards if guard not in first)) for each in made[1:]]
    return FigureProgram(tuple(kept.nodes), (made[0], *rest), absent), inputs


def _absent(
    architecture: Architecture, call: Sequence[float], following: Mapping[Keys, OptionalNumber], kept: KeptNodes
) -> Mapping[int, FollowingNumber]:
    """What the inputs at places that may be empty are then."""
    found = {}
    for at, each in enumerate(inputs_of(architecture), len(call)):
        given = traceable(architecture, call)
        with suppress(UserError, ValueError):
            if each.keys not in following:
                continue
            of_window = following[each.keys].kinds is not None
            own = following_number(given.trace, given.architecture, given.call[1], each.keys, of_window)
            if own is not None:
                kept.begin(given.trace)
                guards = tuple((kept.node(guard), holds) for guard, holds in own.guards)
                found[at] = FollowingNumber(kept.node(own.node), guards)
    return found


def inputs_of(architecture: Architecture) -> tuple[NumberInput, ...]:
    """The inputs of its program behind those of the call."""
    following = followers(architecture)
    architecture = written_out(architecture, following)
    found: list[NumberInput] = []

    def take(keys: Keys, value: int) -> int:
        at = _input(architecture, keys, value)
        if at is not None:
            own = following.get(keys)
            found.append(at if own is None else replace(at, absent=own.absent, kinds=own.kinds))
        return value

    substituted(architecture, take)
    return tuple(found)


def _input(architecture: Architecture, keys: Keys, value: int) -> NumberInput | None:
    """The input at a place; None of a number that is one of a few."""
    last = keys[-1]
    place, at = (keys[:-1], last) if isinstance(last, int) else (keys, None)
    bounds = _bounds(architecture, place)
    return None if bounds is None else NumberInput(place, at, value, bounds)


def traceable(architecture: Architecture, call: Sequence[float]) -> Traceable:
    """The architecture, every whole number of it an input."""
    trace = NumberTrace()
    numbers = [trace.input(i, value) for i, value in enumerate(call)]
    inputs: list[NumberInput] = []

    def take(keys: Keys, value: int) -> Any:
        given = _input(architecture, keys, value)
        if given is None:
            return value
        inputs.append(given)
        number, bounds = trace.input(len(call) + len(inputs) - 1, value), given.bounds
        assert bounds.least <= number <= bounds.greatest, "a valid description, whose bounds become guards"
        assert number % bounds.step == 0, "likewise"
        return number

    traced = substituted(architecture, take)
    return Traceable(trace, traced, tuple(numbers), tuple(inputs))


def _bounds(architecture: Architecture, place: Keys) -> Bounds | None:
    """The bounds of the numbers at a place."""
    *above, name = map(str, place)
    return bounds_of(get(architecture, ".".join(above)) if above else architecture, name)


def _structure(whole: Any, inputs: set[tuple[Any, ...]], at: Keys = ()) -> Any:
    """A description without the numbers that are inputs."""
    if isinstance(whole, Value | Named | PartSet):
        items = vars(whole).items() if isinstance(whole, Value) else whole.items()
        return type(whole).__qualname__, *((name, _structure(item, inputs, (*at, name))) for name, item in items)
    if isinstance(whole, tuple):
        return tuple(_structure(item, inputs, (*at, i)) for i, item in enumerate(whole))
    if type(whole) is int:
        return "take" if (*at, None) in inputs or at in inputs else whole
    return re.sub(r"\d+", "0", whole) if isinstance(whole, str) and (*at, 0) in inputs else whole


class Programs:
    """Programs made so far: an architecture of a known structure takes one that holds for its numbers."""

    def __init__(self, pieces: Mapping[str, PricedPiece] = PIECES) -> None:
        self.pieces = pieces
        self._known: dict[Any, list[FigureProgram]] = {}

    def of(self, architecture: Architecture, call: Sequence[float]) -> tuple[FigureProgram, tuple[NumberInput, ...]]:
        """A program whose every piece holds for an architecture at a call, and its inputs behind those of the call."""
        inputs = inputs_of(architecture)
        whole = written_out(architecture, followers(architecture))
        known = self._known.setdefault(_structure(whole, {(*each.keys, each.at) for each in inputs}), [])
        numbers = [*call, *(each.value for each in inputs)]
        for program in known:
            if all(program.held(program.values(numbers))):
                return program, inputs
        program, _ = program_of(architecture, call, self.pieces)
        known.append(program)
        return program, inputs
