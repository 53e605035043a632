"""`Value`: the base of every description. Frozen, strict, hashable, compared by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, PydanticCustomError

from anyformer.describe.annotations import evaluated
from anyformer.describe.docstrings import field_docstrings
from anyformer.describe.errors import DescriptionError, did_you_mean
from anyformer.describe.inside import inside
from anyformer.describe.plugins import NAME, plugin_of
from anyformer.describe.problems import problems_of
from anyformer.describe.registry import Registry
from anyformer.describe.spelling import spelled
from anyformer.describe.versions import KEY, VERSION, upgraded

PLUGINS = "plugins"
"""The key of a written description that names the plug-ins it needs."""
GREATEST = 2**63 - 1
"""The greatest whole number of a description: TOML and tensors hold signed 64-bit integers."""


_COMPUTED = (property, FunctionType)
"""What a base class has under a name that no field may take."""


class Holder:
    """What holds things by names, and gives copies of itself that hold others."""

    def takes(self, name: str) -> bool:
        """Whether something is held, or may be, under a name."""
        raise NotImplementedError

    def but(self, **changes: Any) -> Self:
        """A copy that holds other things under some names."""
        raise NotImplementedError


class Value(BaseModel, Holder):
    """A frozen description: no coercion, no unknown field, no copy that skips validation.

    `through`: the fields that a path may leave out, so that `decoder.layer.attention.heads` finds its way through `variants`,
    `steps`, `branches` and `sublayer`. `kinds`: the registry of a family of parts, held by its base class; None elsewhere.
    `bare`: whether the word of its kind stands for the value of that kind without other fields, as `precision = "bf16"`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False, defer_build=True
    )
    through: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[Registry | None] = None
    bare: ClassVar[bool] = False
    versioned: ClassVar[bool] = False
    """Whether a file of it says the version of descriptions in which it was written."""
    of_sizes: ClassVar[bool] = False
    """Whether whole numbers in it are sizes, so that 8k is 8,192 in a change."""

    def __init_subclass__(cls, **_: Any) -> None:
        if "__annotations__" in vars(cls):
            cls.__annotations__ = evaluated(cls)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name in vars(cls).get("__annotations__", ()):
            taken = next((base for base in cls.__mro__[1:] if isinstance(vars(base).get(name), _COMPUTED)), None)
            if name in cls.model_fields and taken is not None:
                raise TypeError(
                    f"{cls.__qualname__} has a field {name!r}, which {taken.__qualname__} computes: give the field another name"
                )
        kind = cls.model_fields.get("kind")
        if cls.kinds is not None and kind is not None and isinstance(kind.default, str):
            cls.kinds.add(kind.default, cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kind = cls.model_fields.get("kind")
        if cls.kinds is None or (kind is not None and isinstance(kind.default, str)):
            return handler(source)
        return cls.kinds.schema(cls)  # a base class: any of its kinds may stand for it

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in field_docstrings(cls).items():
            if name in properties:
                properties[name]["description"] = text
        return found

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DescriptionError(problems_of(error, type(self), fields), where=type(self).__name__) from None

    # Tells pydantic that nested values need not come through this constructor, so that their errors keep the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _known_and_frozen(cls, data: Any) -> Any:
        """Refuse unknown fields by name, take other spellings of known ones, and lists as tuples, so that nothing inside a
        frozen value can change."""
        if not isinstance(data, Mapping):
            return data
        ours: dict[str, Any] = {}
        fields = cls.model_fields
        for written, item in data.items():
            name = spelled(str(written), fields)
            if name not in fields:
                found = inside(cls, name, type(item))
                hint = did_you_mean(name, fields) if found is None else f": {found}"
                raise PydanticCustomError("unknown_field", "has no field {name}{hint}", {"name": repr(written), "hint": hint})
            if name in ours:
                raise PydanticCustomError(
                    "given_twice", "{name} is given twice, in two spellings: leave one out", {"name": name}
                )
            if type(item) is int and abs(item) > GREATEST:
                raise PydanticCustomError(
                    "too_great",
                    "{name} is beyond what a description holds: whole numbers go to {greatest}",
                    {"name": name, "greatest": GREATEST},
                )
            ours[name] = tuple(item) if isinstance(item, list) else item
        return ours

    @classmethod
    def parse(cls, data: Any, where: str = "") -> Self:
        """The value that plain data (from TOML or JSON) describes; every problem is reported at its path.

        `plugins` in the data names the plug-ins that it was written with, for errors alone: none is loaded because of it.
        """
        data, named = without_plugins(data, where)
        data = upgraded(data, where, versioned=cls.versioned)
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise DescriptionError(problems_of(error, cls, data, named), where=where) from None

    def takes(self, name: str) -> bool:
        fields = type(self).model_fields
        own: bool = spelled(name, fields) in fields
        return own or self._behind(name) is not None

    def _behind(self, name: str) -> str | None:
        """The field, which a path may leave out, that holds something under a name; None of one of its own."""
        held = {field: getattr(self, field) for field in type(self).through}
        return next((field for field, inner in held.items() if isinstance(inner, Holder) and inner.takes(name)), None)

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like any other value; names may skip the plumbing, as in paths."""
        fields = type(self).model_fields
        new = {name: getattr(self, name) for name in fields}
        for written, item in changes.items():
            name = spelled(written, fields)
            if name not in fields and (field := self._behind(name)) is not None:
                new[field] = new[field].but(**{name: item})
            else:
                new[name] = item
        return type(self)(**new)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """`but`: pydantic's own copy would skip validation."""
        return self.but(**(update or {}))

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:  # type: ignore[override]
        """The constructor: pydantic's own would skip validation."""
        return cls(**values)

    def plain(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings: `kind` first, then the fields in order; absent parts are left out, and what
        has nothing to write where that is the default."""
        # The kind comes first, wherever a class declares it.
        written = dict[str, Any]()
        for name, field in sorted(type(self).model_fields.items(), key=lambda item: item[0] != "kind"):
            item = getattr(self, name)
            if item is None or ((data := as_data(item)) == {} and field.default == item):
                continue
            written[name] = data
        return written

    def with_plugins(self) -> dict[str, Any]:
        """Plain data as it is written to a file: before it the version of descriptions, and `plugins`, the names of those that
        define some of its classes."""
        named = sorted({name for value in nested(self) if (name := plugin_of(type(value).__module__))})
        version = {KEY: VERSION} if self.versioned else {}
        return {**version, **({PLUGINS: named} if named else {}), **self.plain()}

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: equal values have equal digests on every machine."""
        return hashlib.sha256(json.dumps(self.plain(), separators=(",", ":")).encode()).hexdigest()


Value.__annotations__ = evaluated(Value)  # what a class does not do for itself


def subclasses(base: type[Value]) -> Iterator[type[Value]]:
    """Every class derived from `base`, directly or not."""
    for derived in base.__subclasses__():
        yield derived
        yield from subclasses(derived)


def nested(whole: Any) -> Iterator[Value]:
    """Every description in one, itself first."""
    if isinstance(whole, Value):
        yield whole
        whole = [getattr(whole, name) for name in type(whole).model_fields]
    if isinstance(whole, Mapping):
        whole = list(whole.values())
    if isinstance(whole, tuple | list):
        for item in whole:
            yield from nested(item)


def without_plugins(data: Any, where: str = "") -> tuple[Any, tuple[str, ...]]:
    """Data from a file without the names of the plug-ins that it was written with, and these."""
    if not isinstance(data, Mapping) or PLUGINS not in data:
        return data, ()
    named = data[PLUGINS]
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) and NAME.match(name) for name in named):
        raise DescriptionError("plugins: should be a list of names, as in plugins = ['my_parts.py']", where=where)
    return {name: item for name, item in data.items() if name != PLUGINS}, tuple(named)


def numbers(whole: Any) -> Iterator[tuple[str, int]]:
    """(path, number) of every whole number in a description, at the path that a person would write."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), whole)]
    while waiting:
        path, item = waiting.pop()
        if type(item) is int:
            yield ".".join(path), item
        elif isinstance(item, Value):
            through = type(item).through
            fields = reversed(vars(item).items())
            waiting += [(path if name in through else (*path, name), each) for name, each in fields if each is not None]
        elif isinstance(item, tuple):
            waiting += [(path, each) for each in reversed(item)]
        elif not isinstance(item, str) and isinstance(item, Mapping):
            waiting += [((*path, name), each) for name, each in reversed(tuple(item.items()))]


def goes_beyond(whole: Any, greatest: int) -> bool:
    """Whether some whole number in a description is greater: `numbers` tells which, and takes three times as long."""
    waiting = [whole]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is int:
            if item > greatest:
                return True
        elif kind is tuple:
            waiting += item
        elif isinstance(item, Value):
            waiting += vars(item).values()
        elif item is not None and kind not in _WITHOUT and isinstance(item, Mapping):
            waiting += item.values()
    return False


_WITHOUT = frozenset({str, bool, float})
"""Types of what holds no whole number; most of a description is of these."""


def _is_default(value: Value) -> bool:
    """Whether its kind says all of it."""
    fields = type(value).model_fields.items()
    return all(name == "kind" or getattr(value, name) == field.get_default(call_default_factory=True) for name, field in fields)


def as_data(value: Any) -> Any:
    """`value` as plain data, recursively."""
    if isinstance(value, Value):
        data = value.plain()
        return data["kind"] if value.bare and _is_default(value) else data
    if isinstance(value, Mapping):
        return {name: as_data(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_data(item) for item in value]
    return value
