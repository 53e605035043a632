"""One registry per family of parts: its classes by their `kind`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from anyformer.describe.errors import did_you_mean
from anyformer.describe.nearest import nearest
from anyformer.describe.plugins import HINT, SHORT, load_plugins
from anyformer.describe.spelling import spelled

if TYPE_CHECKING:
    from pydantic import BaseModel


REFERENCE = "registered"
"""The key of a reference to a class by its name, in a JSON schema that is not finished."""


def with_kind(kind: str) -> Callable[[Any], Any]:
    """A function for `BeforeValidator` that gives a table without a kind this one."""
    return lambda data: {"kind": kind, **data} if isinstance(data, Mapping) else data


class Registry(Mapping[str, "type[BaseModel]"]):
    """Kind -> class. A base class of descriptions holds one, and every subclass with a `kind` enters it by being defined:

        class Mask(Value):
            kinds: ClassVar[Registry] = Registry()

        class Causal(Mask):
            kind: Literal["causal"] = "causal"

    A field annotated `mask: Mask` then takes any mask, or the table that describes one: `{kind = "causal"}`. Classes from
    outside the package enter in the same way: a kind that is not known is looked for in the user's plug-ins.
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[BaseModel]] = {}

    def __getitem__(self, kind: str) -> type[BaseModel]:
        if kind not in self._classes and spelled(str(kind), self._classes) == kind:
            load_plugins()
        return self._classes[spelled(str(kind), self._classes)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, kind: str, entry: type[BaseModel]) -> None:
        """Enter a class; a second one of the same kind is refused, unless it is the same one defined again."""
        owner = self._classes.get(kind, entry)
        if (owner.__module__, owner.__qualname__) != (entry.__module__, entry.__qualname__):
            taken = f"{owner.__module__}.{owner.__qualname__}"
            raise TypeError(f"{entry.__qualname__} has kind = {kind!r}, which is that of {taken} already")
        self._classes[kind] = entry

    def parse(self, base: type[BaseModel], data: Any) -> Any:
        """The value that a table with a `kind` describes; an instance of `base` as it is."""
        if isinstance(data, base):
            return data
        if isinstance(data, str) and getattr(base, "bare", False):
            data = {"kind": data}
        if not isinstance(data, Mapping):
            raise PydanticCustomError("kind_table", "should be a table with a kind")
        if "kind" not in data:
            raise PydanticCustomError("kind_missing", "says no kind")
        kind = data["kind"]
        if not isinstance(kind, str) or kind not in self or not issubclass(self[kind], base):
            known = sorted(kind for kind, entry in self.items() if issubclass(entry, base))
            hint = did_you_mean(str(kind), known)
            hint += f"; {SHORT if nearest(str(kind), known) else HINT}"
            raise PydanticCustomError("kind_unknown", "{kind} is no kind{hint}", {"kind": repr(kind), "hint": hint})
        entry = self[kind]
        return entry.model_validate({**data, "kind": entry.model_fields["kind"].default})

    def schema(self, base: type[BaseModel]) -> CoreSchema:
        """The validator of a field annotated with `base`: it reads the registry at every call, so later classes count too."""

        def alternatives(_: CoreSchema, __: Any) -> dict[str, Any]:
            words = [{"type": "string", "enum": list(self)}] if getattr(base, "bare", False) else []
            return {"anyOf": [*words, *({REFERENCE: entry.__name__} for entry in self.values())]}

        return core_schema.no_info_plain_validator_function(
            lambda data: self.parse(base, data), metadata={"pydantic_js_functions": [alternatives]}
        )
