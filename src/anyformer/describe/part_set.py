"""A frozen set of parts, at most one of each name: what a slot of a description holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from anyformer.describe.errors import DescriptionError, did_you_mean
from anyformer.describe.plugins import HINT, SHORT, load_plugins
from anyformer.describe.registry import REFERENCE
from anyformer.describe.spelling import spelled
from anyformer.describe.value import Holder, Value, as_data

P = TypeVar("P", bound="Part")


class Part(Value):
    """The base of parts that stand in a `PartSet` by their name.

    A base class of the parts of one slot holds an empty `members`; each class that says a `name` enters it by being defined,
    those of plug-ins too. Classes derived from it have the same name: a set holds one of them.
    """

    members: ClassVar[dict[str, type[Part]]]
    name: ClassVar[str]
    order: ClassVar[int] = 0
    """Its place in the order in which the parts of a set are applied: lower ones first, equal ones by name."""
    short: ClassVar[str | None] = None
    """The field for which a number, a word or a table with a kind stands that is given in the place of the whole part:
    `clip = 8.0`, `sub_norm = {kind = "rms_norm"}`."""

    @classmethod
    def given(cls, item: Any) -> Any:
        """What stands for a part, as validation takes it: the part, its table, or one of its `short` field."""
        whole = isinstance(item, cls) or (isinstance(item, Mapping) and ("kind" not in item or "kind" in cls.model_fields))
        return item if whole or cls.short is None else {cls.short: item}

    @classmethod
    def of(cls, item: Any) -> Self | None:
        """The part for which something stands, as in a table of names; None of None."""
        return item if item is None or isinstance(item, cls) else cls.parse(cls.given(item), where=cls.name)

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        super().__pydantic_init_subclass__(**more)
        if "name" in cls.__dict__:
            owner = cls.members.setdefault(cls.name, cls)
            if (owner.__module__, owner.__qualname__) != (cls.__module__, cls.__qualname__):
                taken = f"{owner.__module__}.{owner.__qualname__}"
                raise TypeError(f"{cls.__qualname__} has name = {cls.name!r}, which is that of {taken} already")
            cls.members[cls.name] = cls


class PartSet(Mapping[str, P], Holder, Generic[P]):
    """Parts by name, in their order: `PartSet(Exclusive(), None, Gate())` leaves out what is None.

    A field annotated `PartSet[Combine]` takes a part or None, some of these in a list, or a table of names.
    """

    __slots__ = ("_items", "base")
    _items: dict[str, Any]
    base: type[Part] | None
    """The class of the parts that it may hold, once it is a field of a description."""

    def __init__(self, *parts: P | None, base: type[Part] | None = None) -> None:
        given = sorted((part for part in parts if part is not None), key=lambda part: (part.order, part.name))
        for first, second in pairwise(sorted(given, key=lambda part: part.name)):
            if first.name == second.name:
                raise ValueError(f"two parts are called {first.name}: {first!r} and {second!r}")
        object.__setattr__(self, "_items", {part.name: part for part in given})
        object.__setattr__(self, "base", base)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("PartSet is immutable; build a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (tuple(self._items.values()), self.base)

    @property
    def members(self) -> dict[str, type[Part]]:
        """The classes by name that it may hold."""
        return {name: type(part) for name, part in self._items.items()} if self.base is None else members_of(self.base)

    def __getitem__(self, name: str) -> P:
        part: P = self._items[name]
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def takes(self, name: str) -> bool:
        return spelled(name, self.members) in self.members

    def but(self, **changes: Any) -> Self:
        """A set with other parts under some names; None leaves one out."""
        new = dict(self._items)
        for written, item in changes.items():
            name = spelled(written, self.members)
            if name not in self.members:
                raise DescriptionError(f"there is no part {written!r} here{did_you_mean(name, self.members)}")
            new[name] = item if item is None or isinstance(item, Part) else self.members[name].of(item)
        return type(self)(*new.values(), base=self.base)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartSet) and self._items == other._items

    def __repr__(self) -> str:
        return f"PartSet({', '.join(map(repr, self._items.values()))})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        base = next(iter(get_args(source)), Part)  # pydantic asks the bare class how a default is written

        def alternatives(_: CoreSchema, __: Any) -> dict[str, Any]:
            properties = {name: {REFERENCE: part.__name__} for name, part in members_of(base).items()}
            return {"type": "object", "properties": properties, "additionalProperties": False}

        return core_schema.chain_schema(
            [
                core_schema.no_info_plain_validator_function(lambda data: _by_name(base, data)),
                core_schema.dict_schema(
                    core_schema.str_schema(), core_schema.no_info_plain_validator_function(lambda item: item.value())
                ),
                core_schema.no_info_plain_validator_function(lambda items: PartSet(*items.values(), base=base)),
            ],
            serialization=core_schema.plain_serializer_function_ser_schema(as_data),
            metadata={"pydantic_js_functions": [alternatives]},
        )


def _again(parts: tuple[Any, ...], base: type[Part] | None) -> PartSet[Any]:
    return PartSet(*parts, base=base)


def members_of(base: type[Part]) -> dict[str, type[Part]]:
    """The classes by name that a set of `base` may hold."""
    return {name: part for name, part in base.members.items() if issubclass(part, base)}


@dataclass(frozen=True)
class _Item:
    """A part as it was given: a value, or the data of one of a class."""

    part: type[Part]
    data: Any

    def value(self) -> Any:
        return self.part.model_validate(self.part.given(self.data))


def _by_name(base: type[Part], data: Any) -> dict[str, _Item]:
    """What was given for a set, by the names of its parts."""
    if data is None or isinstance(data, Part):
        data = (data,)
    if isinstance(data, PartSet):
        data = tuple(data.values())
    if isinstance(data, tuple | list):
        parts = [part for part in data if part is not None]
        for part in parts:
            if not isinstance(part, base):
                raise PydanticCustomError(
                    "kind_unknown", "{part} is no part of this slot", {"part": getattr(part, "name", repr(part)[:60])}
                )
        return {part.name: _Item(type(part), part) for part in PartSet(*parts).values()}
    if not isinstance(data, Mapping):
        raise PydanticCustomError("kind_table", "should be a table of parts by name")
    items = {}
    for written, item in data.items():
        if item is None:
            continue
        name = spelled(str(written), base.members)
        if name not in base.members:
            load_plugins()
        known = members_of(base)
        if name not in known:
            raise PydanticCustomError(
                "kind_unknown",
                "has no part {name}{hint}",
                {"name": repr(written), "hint": f"{did_you_mean(name, known)}; {SHORT if known else HINT}"},
            )
        items[name] = _Item(known[name], item)
    return items
