"""A field whose value is a key of a table, so that adding an entry to the table is all it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from anyformer.describe.errors import did_you_mean
from anyformer.describe.spelling import spelled


@dataclass(frozen=True)
class Choice:
    """`Annotated[str, Choice(TABLE)]`: one of the table's keys; anything else is refused with a suggestion."""

    table: Callable[[], Mapping[str, Any]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.table())}

    def _known(self, name: str) -> str:
        known = spelled(name, self.table())
        if known not in self.table():
            raise ValueError(f"{name!r} is unknown{did_you_mean(name, self.table())}")
        return known
