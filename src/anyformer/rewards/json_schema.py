"""JSON of a schema."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import model_validator

from anyformer.describe import Positive
from anyformer.rewards.aside import AsideError, aside
from anyformer.rewards.record_fields import value_of
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError, shown

_FENCE = re.compile(r"\A```[^\n`]*\n(.*?)\n?```\Z", re.S)


class JSONSchemaReward(Reward):
    """1 where the answer is one JSON value of a schema, else 0; a fence (```` ```json ````) around all of it is left out.

    The schema stands in the run, as text, or in a field of the record. `parts`: `json`, whether it is JSON at all, and `valid`.
    Schemas are those of the package `jsonschema` (the extra `rewards`); references to other files are not followed.
    """

    kind: Literal["json_schema"] = "json_schema"
    schema_text: str | None = None
    """The schema as JSON, the same for all prompts."""
    column: str | None = None
    """The field of the record with the schema, an object, or a text of JSON."""
    seconds: Positive = 10.0
    """The longest time of one comparison, as its patterns may backtrack without end; past it the answer is wrong."""

    @model_validator(mode="after")
    def _of_one_schema(self) -> JSONSchemaReward:
        if self.schema_text is not None and self.column is not None:
            raise ValueError("schema_text and column are both given: leave one out")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def check(self) -> None:
        if find_spec("jsonschema") is None:
            raise RewardError("reward json_schema: jsonschema is not installed: pip install 'anyformer[rewards]'")
        if self.schema_text is not None:
            _checked(self.schema_text, "reward json_schema: reward.schema_text")

    def grade(self, query: Query, response: Response) -> Grade:
        schema = self._schema(query)
        fenced = _FENCE.match(response.text.strip())
        try:
            value = json.loads(fenced[1] if fenced else response.text, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return Grade(0.0, {"json": 0.0, "valid": 0.0})
        try:
            valid = aside().call(f"{__name__}:fits", [schema, value], self.seconds, f"{__name__}:prepared")
        except (AsideError, RecursionError):
            valid = False
        return Grade(float(valid), {"json": 1.0, "valid": float(valid)})

    def _schema(self, query: Query) -> str:
        if self.schema_text is not None:
            return self.schema_text
        if self.column is None:
            return "{}"
        value = value_of(query, self.column, self.kind)
        text = value if isinstance(value, str) else json.dumps(value)
        _checked(text, f"reward json_schema: field {self.column!r} in the record of the prompt {query.shown}")
        return text


def prepared() -> None:
    """Import what takes long."""
    fits("{}", None)


def fits(schema: str, value: Any) -> bool:
    """Whether a value is one of a schema; in a process that may be ended."""
    valid: bool = _validator(schema).is_valid(value)
    return valid


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for
    from referencing import Registry

    table = json.loads(schema)
    return validator_for(table)(table, registry=Registry())  # an empty one: nothing is fetched


@lru_cache(maxsize=256)
def _checked(schema: str, where: str) -> None:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    try:
        table = json.loads(schema)
        validator_for(table).check_schema(table)
    except (ValueError, SchemaError, RecursionError, AttributeError) as error:
        raise RewardError(f"{where} is no JSON schema: {shown(str(error).splitlines()[0])}; mend it") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
