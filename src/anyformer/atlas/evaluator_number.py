"""Numbers that remember how they were made: declared arithmetic that runs on them becomes expressions.

A `Traced` number holds its value and a node of a `NumberTrace`: a constant, an input, or an operation on other nodes. Whatever
of it decides something (a comparison, a truth, a use as a plain integer) is kept as a guard: the condition under which the
expressions hold. So nothing can be lost in silence: code that leaves the arithmetic ties the result to the value it saw.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import Any

Node = tuple[Any, ...]
"""("take", number), ("int", text), ("float", value), or an operation and the numbers of its operands."""


LEAVES = ("take", "int", "float")
"""What a node is that has no operands."""
OPERATORS: dict[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "/": lambda x, y: x / y,
    "**": lambda x, y: x**y,
    "min": min,
    "max": max,
    "<": lambda x, y: x < y,
    "==": lambda x, y: x == y,
    "abs": abs,
    "floor": floor,
    "round": round,
    "bits": int.bit_length,
}
"""What a node may do, in Python's meaning."""


class NumberTrace:
    """The expressions of one run, each node once, and the guards under which they hold."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.guards: dict[int, bool] = {}
        self.values: list[Any] = []
        self._known: dict[Node, int] = {}

    def node(self, node: Node, value: Any) -> int:
        """The number of a node, which is added if it is new."""
        at = self._known.get(node)
        if at is None:
            at = self._known[node] = len(self.nodes)
            self.nodes.append(node)
            self.values.append(value)
        return at

    def input(self, number: int, value: float) -> Traced:
        """The input of that number."""
        return Traced(self, self.node(("take", number), value), value)

    def of(self, value: Any) -> int:
        """The node of a number: its own, or that of a constant."""
        if type(value) is Traced:
            assert value.trace is self, "numbers of one trace"
            return value.at
        if isinstance(value, float):
            return self.node(("float", value), value)
        return self.node(("int", int(value)), int(value))

    def guard(self, at: int, holds: bool) -> None:
        """Keep a condition, but for one between constants."""
        if self.nodes[at][0] not in ("int", "float"):
            self.guards.setdefault(at, holds)

    def apply(self, operator: str, *operands: Any) -> Any:
        """An operation on numbers of which one is traced."""
        value = OPERATORS[operator](*(plain(each) for each in operands))
        ats = tuple(map(self.of, operands))
        simple = self._simple(operator, ats)
        at = self.node((operator, *ats), value) if simple is None else simple
        return Traced(self, at, value)

    def _simple(self, operator: str, ats: tuple[int, ...]) -> int | None:
        """The node of what needs no operation: of constants, of a sum with 0, of a product with 1 or 0."""
        kinds = [self.nodes[at][0] for at in ats]
        if all(kind in ("int", "float") for kind in kinds):
            return self.of(OPERATORS[operator](*(self.values[at] for at in ats)))
        numbers = [self.values[at] if kind == "int" else None for at, kind in zip(ats, kinds, strict=True)]
        match operator, numbers:
            case ("+", [0, _]) | ("*", [1, _]):
                return None if isinstance(self.values[ats[1]], float) else ats[1]
            case ("+" | "-", [_, 0]) | ("*" | "//", [_, 1]):
                return None if isinstance(self.values[ats[0]], float) else ats[0]
            case ("*", [0, _]):
                return None if isinstance(self.values[ats[1]], float) else ats[0]
            case ("*", [_, 0]):
                return None if isinstance(self.values[ats[0]], float) else ats[1]
            case ("max" | "min", _) if ats[0] == ats[1]:
                return ats[0]
        return None


def plain(value: Any) -> Any:
    """The value of a number, traced or not."""
    return value.value if type(value) is Traced else value


class Traced:
    """A number of a trace. It passes for an `int` or a `float` in `isinstance`, and is of no built-in type."""

    __slots__ = ("at", "trace", "value")

    def __init__(self, trace: NumberTrace, at: int, value: Any) -> None:
        self.trace, self.at, self.value = trace, at, value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.value)

    @property
    def numerator(self) -> Any:
        """Itself: a whole number is a fraction over 1."""
        return self

    @property
    def denominator(self) -> int:
        return 1

    def _with(self, operator: str, other: Any) -> Any:
        return self.trace.apply(operator, self, other) if isinstance(other, int | float) else NotImplemented

    def _from(self, operator: str, other: Any) -> Any:
        return self.trace.apply(operator, other, self) if isinstance(other, int | float) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Any:
        return self._from("+", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._from("-", other)

    def __mul__(self, other: Any) -> Any:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._from("*", other)

    def __floordiv__(self, other: Any) -> Any:
        return self._with("//", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._from("//", other)

    def __mod__(self, other: Any) -> Any:
        return self._with("%", other)

    def __rmod__(self, other: Any) -> Any:
        return self._from("%", other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._from("/", other)

    def __pow__(self, other: Any) -> Any:
        return self._with("**", other)

    def __rpow__(self, other: Any) -> Any:
        return self._from("**", other)

    def __lshift__(self, other: Any) -> Any:
        return self * 2**other

    def __rlshift__(self, other: Any) -> Any:
        return other * 2**self

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.trace.apply("abs", self)

    def __floor__(self) -> Any:
        return self if type(self.value) is int else self.trace.apply("floor", self)

    def __ceil__(self) -> Any:
        return self if type(self.value) is int else -self.trace.apply("floor", -self)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            return round(float(self), digits)
        return self if type(self.value) is int else self.trace.apply("round", self)

    def bit_length(self) -> Any:
        """The number of bits, of a whole number."""
        return self.trace.apply("bits", self)

    def _decided(self, operator: str, x: Any, y: Any) -> Any:
        """The outcome of a comparison, which is kept as a guard."""
        if not isinstance(y, int | float) or not isinstance(x, int | float):
            return NotImplemented
        if self.trace.of(x) == self.trace.of(y):
            return operator == "=="
        result = self.trace.apply(operator, x, y)
        self.trace.guard(result.at, result.value)
        return bool(result.value)

    def __lt__(self, other: Any) -> Any:
        return self._decided("<", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._decided("<", other, self)

    def __ge__(self, other: Any) -> Any:
        below = self._decided("<", self, other)
        return below if below is NotImplemented else not below

    def __le__(self, other: Any) -> Any:
        above = self._decided("<", other, self)
        return above if above is NotImplemented else not above

    def __eq__(self, other: object) -> Any:
        return self._decided("==", self, other)

    def __ne__(self, other: object) -> Any:
        same = self._decided("==", self, other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        return hash((id(self.trace), self.at))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def _leaves(self) -> Any:
        """Its value for code that is no arithmetic: from here on all holds for this value alone."""
        self._decided("==", self, self.value)
        return self.value

    def __index__(self) -> int:
        value: int = self._leaves()
        return value

    def __int__(self) -> int:
        return int(self._leaves())

    def __float__(self) -> float:
        return float(self._leaves())

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)
