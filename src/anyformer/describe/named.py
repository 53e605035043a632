"""An immutable, ordered, hashable mapping from names to values: what `dict` is to a frozen description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

T_co = TypeVar("T_co", covariant=True)
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class Named(Mapping[str, T_co], Generic[T_co]):
    """Frozen names -> values. Names are lower-case identifiers, so that they can stand in a path and in a parameter name."""

    __slots__ = ("_items",)
    _items: dict[str, Any]

    def __init__(self, items: Mapping[str, Any] | None = None, **more: Any) -> None:
        object.__setattr__(self, "_items", {**(items or {}), **more})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Named is immutable; build a new one")

    def __reduce__(self) -> tuple[type[Named[Any]], tuple[dict[str, Any]]]:
        return Named, (dict(self._items),)

    def __getitem__(self, name: str) -> T_co:
        value: T_co = self._items[name]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        # Order is part of the value: branches of one step are summed in the order written.
        return isinstance(other, Named) and list(self._items.items()) == list(other._items.items())

    def __repr__(self) -> str:
        return "Named(" + ", ".join(f"{name}={value!r}" for name, value in self._items.items()) + ")"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        (item,) = get_args(source) or (Any,)
        mapping = core_schema.dict_schema(core_schema.str_schema(), handler.generate_schema(item))
        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(_as_dict),
                mapping,
                core_schema.no_info_plain_validator_function(_named),
            ],
            serialization=core_schema.plain_serializer_function_ser_schema(dict),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        result: dict[str, Any] = handler(schema["steps"][1])
        return result


def _as_dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"should be a table of names, got {type(value).__name__}")
    return dict(value)


def _named(items: dict[str, Any]) -> Named[Any]:
    for name in items:
        if not _NAME.match(name):
            raise ValueError(f"{name!r} cannot be a name: use lower-case letters, digits and underscores, a letter first")
    return Named(items)
