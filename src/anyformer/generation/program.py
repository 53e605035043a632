"""Recorded calls of torch, and the Python function that makes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class RecordedTensor:
    """A tensor that calls read or make. `lasting`: it lies in memory that stays from step to step."""

    lasting: bool = False


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of `function`, with values in the place of tensors: those that it `reads`.

    `gives`: a value, or a tuple of values and of what is none.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: tuple[RecordedTensor, ...]
    gives: Any


def program(
    calls: Sequence[RecordedCall], inputs: Sequence[RecordedTensor], output: RecordedTensor | tuple[RecordedTensor, ...]
) -> Callable[..., Any]:
    """A function of the inputs that makes all calls in order, and gives the output.

    A name is taken again as soon as what it held is read no more, so tensors live no longer than in the code recorded.
    """
    writer = _Writer(inputs, _last_reads(calls, output))
    lines = [writer.line(number, call) for number, call in enumerate(calls)]
    source = "\n ".join([f"def program({', '.join(map(writer.text, inputs))}):", *lines, f"return {writer.text(output)}"])
    exec(compile(source, "<recorded calls>", "exec"), writer.constants)
    result: Callable[..., Any] = writer.constants["program"]
    return result


def found_in(value: Any, kind: type[T]) -> Iterator[T]:
    """Everything of a kind in the arguments or the results of a call."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from found_in(each, kind)
    elif isinstance(value, dict):
        yield from found_in(list(value.values()), kind)
    elif isinstance(value, slice):
        yield from found_in((value.start, value.stop, value.step), kind)


class _Writer:
    """Calls as lines of Python. What is neither a value nor a literal is a constant of the module."""

    def __init__(self, inputs: Sequence[RecordedTensor], last: dict[RecordedTensor, int]) -> None:
        self.constants: dict[str, Any] = {}
        self._last = last
        self._names = {value: f"i{number}" for number, value in enumerate(inputs)}
        self._inputs = frozenset(inputs)
        self._functions: dict[int, str] = {}
        self._free: list[str] = []
        self._count = 0

    def line(self, number: int, call: RecordedCall) -> str:
        """One call; what it reads for the last time leaves its name to what it makes."""
        right = self._right(call)
        for value in dict.fromkeys(call.reads):
            if self._last[value] == number and value not in self._inputs:
                self._free.append(self._names[value])
        left = self._left(call.gives)
        return right if left in ("_", "(_,)") else f"{left} = {right}"

    def text(self, value: Any) -> str:
        """An argument."""
        match value:
            case RecordedTensor():
                return self._names[value]
            case bool() | int() | str() | None if type(value) in (bool, int, str, type(None)):
                return repr(value)
            case float() if type(value) is float and isfinite(value):
                return repr(value)
            case tuple() | list() if next(found_in(value, RecordedTensor), None) is not None:
                inner = ", ".join(map(self.text, value))
                return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
            case slice() if next(found_in(value, RecordedTensor), None) is not None:
                return f"slice({', '.join(map(self.text, (value.start, value.stop, value.step)))})"
            case dict() if next(found_in(value, RecordedTensor), None) is not None:
                return "{" + ", ".join(f"{key!r}: {self.text(each)}" for key, each in value.items()) + "}"
        return self._constant(value)

    def _right(self, call: RecordedCall) -> str:
        match getattr(call.function, "__name__", ""):
            case "__getitem__":
                return f"{self.text(call.args[0])}[{self.text(call.args[1])}]"
            case "getattr":
                return f"{self.text(call.args[0])}.{call.args[1]}"
        if id(call.function) not in self._functions:
            self._functions[id(call.function)] = self._constant(call.function)
        words = [*map(self.text, call.args), *(f"{name}={self.text(value)}" for name, value in call.kwargs.items())]
        return f"{self._functions[id(call.function)]}({', '.join(words)})"

    def _left(self, gives: Any) -> str:
        if isinstance(gives, RecordedTensor) and gives in self._last:
            self._names[gives] = self._free.pop() if self._free else f"v{self._count}"
            self._count += self._names[gives] == f"v{self._count}"
            return self._names[gives]
        if isinstance(gives, tuple) and any(value in self._last for value in found_in(gives, RecordedTensor)):
            return f"({', '.join(map(self._left, gives))},)"
        return "_"

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def _last_reads(
    calls: Sequence[RecordedCall], output: RecordedTensor | tuple[RecordedTensor, ...]
) -> dict[RecordedTensor, int]:
    """The number of the last call that reads each value; those that none reads are left out."""
    last = {value: number for number, call in enumerate(calls) for value in call.reads}
    return last | dict.fromkeys(found_in(output, RecordedTensor), len(calls))
