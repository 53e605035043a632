"""The operators of torch that a step computes, with the tensors that they read and write."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from anyformer.generation.recorder import MADE_OF_PRODUCTS


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """One operator that was computed: torch's name of it without overloads, its arguments by name, and what it gave.

    `writes`: it writes to what it is given, and torch's name ends with a line, which is left out here. `views`: torch counts it
    among those that give views, as it does some that copy where they have to.
    """

    name: str
    arguments: dict[str, Any]
    gives: Any
    writes: bool = False
    views: bool = False


class _Operators(TorchDispatchMode):
    """Inside, every operator is computed and put down in `found`."""

    def __init__(self, known: Container[str], found: list[Operator]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known, self._found = known, found

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler, which takes a second, to keep that from looking in here

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, schema = kwargs or {}, func._schema
        if schema.name not in self._known:
            with self:  # an operator that is made of others is these
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        made = func(*args, **kwargs)
        given = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
        given |= {each.name: value for each, value in zip(schema.arguments, args, strict=False)} | kwargs
        name = schema.name.removesuffix("_") if schema.is_mutable else schema.name
        self._found.append(Operator(name, given, made, schema.is_mutable, func.is_view))
        return made


class _ChosenProducts(TorchFunctionMode):
    """Inside, a product with one matrix of several is one operator: which ones it multiplies by depends on values."""

    def __init__(self, found: list[Operator]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in MADE_OF_PRODUCTS:
            return func(*args, **(kwargs or {}))
        assert not kwargs, "these hand on what they are given by its place"
        with _disable_current_modes():
            made = func(*args)
        self._found.append(Operator(func.__name__, dict(zip(("rows", "weight", "choice"), args, strict=False)), made))
        return made


@contextmanager
def captured(known: Container[str] = ()) -> Iterator[list[Operator]]:
    """Inside, every operator that is computed is put into the list; of one that is not `known`, those that it is made of."""
    found = list[Operator]()
    with _ChosenProducts(found), _Operators(known, found):
        yield found
