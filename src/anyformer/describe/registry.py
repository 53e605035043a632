"""One registry for each family of parts: every class that says its `kind`, found again by that name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from anyformer.describe.errors import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel


REFERENCE = "registered"
"""In a JSON schema in the making: the key of a reference to a class by its name."""


class Registry(Mapping[str, "type[BaseModel]"]):
    """Kind -> class. A base class of descriptions holds one, and every subclass with a `kind` enters it by being defined:

        class Mask(Value):
            kinds: ClassVar[Registry] = Registry()

        class Causal(Mask):
            kind: Literal["causal"] = "causal"

    A field annotated `mask: Mask` then takes any mask, or the table that describes one: `{kind = "causal"}`. A class of
    somebody else's enters as ours do.
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[BaseModel]] = {}

    def __getitem__(self, kind: str) -> type[BaseModel]:
        return self._classes[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, kind: str, entry: type[BaseModel]) -> None:
        """Enter a class; a second one of the same kind is refused, unless it is the same one defined again."""
        held = self._classes.get(kind, entry)
        if (held.__module__, held.__qualname__) != (entry.__module__, entry.__qualname__):
            owner = f"{held.__module__}.{held.__qualname__}"
            raise TypeError(f"{entry.__qualname__} has kind = {kind!r}, which is that of {owner} already")
        self._classes[kind] = entry

    def parse(self, base: type[BaseModel], data: Any) -> Any:
        """The value that a table with a `kind` describes; an instance of `base` as it is."""
        if isinstance(data, base):
            return data
        if not isinstance(data, Mapping):
            raise PydanticCustomError("kind_table", "should be a table with a kind")
        if "kind" not in data:
            raise PydanticCustomError("kind_missing", "says no kind: add kind = ...")
        kind = data["kind"]
        if not isinstance(kind, str) or kind not in self:
            raise PydanticCustomError(
                "kind_unknown", "{kind} is no kind{hint}", {"kind": repr(kind), "hint": did_you_mean(str(kind), sorted(self))}
            )
        return self[kind].model_validate(data)

    def schema(self, base: type[BaseModel]) -> CoreSchema:
        """What validates a field annotated with `base`: it asks the registry at the time, so that it is never closed."""

        def alternatives(_: CoreSchema, __: Any) -> dict[str, Any]:
            return {"anyOf": [{REFERENCE: entry.__name__} for entry in self.values()]}

        return core_schema.no_info_plain_validator_function(
            lambda data: self.parse(base, data), metadata={"pydantic_js_functions": [alternatives]}
        )
