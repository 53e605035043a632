"""Descriptions as TOML and JSON text, both ways, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from os.path import exists  # which no name is too long for
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from anyformer.describe.errors import DescriptionError
from anyformer.describe.foreign import json_data, read_foreign, toml_data
from anyformer.describe.plugins import load_plugins
from anyformer.describe.registry import REFERENCE
from anyformer.describe.value import Value, subclasses

V = TypeVar("V", bound=Value)


def to_toml(value: Value) -> str:
    """TOML text; `from_toml(type(value), to_toml(value)) == value`, and equal values give equal bytes.

    Where classes of plug-ins are in the value, `plugins` names these first.
    """
    return tomli_w.dumps(value.with_plugins())


def to_json(value: Value) -> str:
    """Indented JSON text with a final newline; it is read back by `from_json`, as TOML by `from_toml`."""
    return json.dumps(value.with_plugins(), indent=2, ensure_ascii=False) + "\n"


def from_toml(kind: type[V], text: str, where: str = "") -> V:
    """The value of class `kind` that TOML `text` describes."""
    return kind.parse(parse_toml(text, where), where)


def from_json(kind: type[V], text: str, where: str = "") -> V:
    """The value of class `kind` that JSON `text` describes."""
    return kind.parse(parse_json(text, where), where)


def parse_toml(text: str, where: str = "") -> Any:
    """Plain data from TOML; a syntax error is a `DescriptionError`."""
    return _parsed("TOML", toml_data, text, where)


def parse_json(text: str, where: str = "") -> Any:
    """Plain data from JSON; a syntax error or a name given twice is a `DescriptionError`."""
    return _parsed("JSON", partial(json_data, finite=False, table=_no_twins), text, where)


def _parsed(form: str, parse: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return parse(text)
    except DescriptionError as error:
        raise DescriptionError(str(error), where=where) from None
    except ValueError as error:  # a syntax error, or a number of thousands of digits
        raise DescriptionError(f"not valid {form}: {error}", where=where) from None


def read_data(path: Path) -> Any:
    """Plain data from a `.toml` or `.json` file."""
    parsers = {".toml": parse_toml, ".json": parse_json}
    if path.suffix not in parsers:
        if not path.suffix and not exists(path):
            raise DescriptionError("there is no such directory, and a file should end in .toml or .json", where=str(path))
        raise DescriptionError(f"should end in .toml or .json, got {path.suffix!r}", where=str(path))
    try:
        text = read_foreign(path)
    except FileNotFoundError:
        raise DescriptionError("no such file", where=str(path)) from None
    except (OSError, ValueError) as error:
        raise DescriptionError(f"cannot be read: {error}", where=str(path)) from None
    return parsers[path.suffix](text, str(path))


def schema(kind: type[Value]) -> str:
    """JSON schema of a description, for editors that check and complete TOML and JSON; with the kinds of plug-ins."""
    load_plugins()
    whole = kind.model_json_schema()
    definitions: dict[str, Any] = whole.setdefault("$defs", {})
    classes = {described.__name__: described for described in subclasses(Value)}
    while missing := set(re.findall(rf'"{REFERENCE}": "(\w+)"', json.dumps(whole))) - definitions.keys():
        for name in sorted(missing):
            own = classes[name].model_json_schema()
            definitions |= {**own.pop("$defs", {}), name: own}
    return re.sub(rf'"{REFERENCE}": "(\w+)"', r'"$ref": "#/$defs/\1"', json.dumps(whole, indent=2)) + "\n"


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise DescriptionError(f"{twin!r} is given twice in one JSON object")
    return table
