"""Values as Python text, without what is at its default, and the imports that the text needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from pydantic_core import PydanticUndefined

from anyformer.describe import Value

WIDEST = 110


def spelt(value: Any) -> str:
    """The value as Python text in one line."""
    if isinstance(value, Value):
        return f"{type(value).__name__}({', '.join(f'{name}={spelt(each)}' for name, each in _moved(value))})"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(f'{name}={spelt(each)}' for name, each in _set(value))})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{spelt(key)}: {spelt(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({', '.join(map(spelt, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(spelt, value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


def spread(value: Mapping[Any, Any] | tuple[Any, ...], indent: str = "        ") -> str:
    """A table or a tuple, one entry a line where it is too wide for one."""
    line = spelt(value)
    if len(line) <= WIDEST or not value:
        return line
    if isinstance(value, Mapping):
        inner = [f"{indent}{spelt(key)}: {spelt(each)},\n" for key, each in value.items()]
        return "{\n" + "".join(inner) + indent[:-4] + "}"
    return "(\n" + "".join(f"{indent}{spelt(each)},\n" for each in value) + indent[:-4] + ")"


def classes_in(value: Any) -> Iterator[type]:
    """The classes that the text of a value names."""
    if isinstance(value, Value):
        yield type(value)
        for _, each in _moved(value):
            yield from classes_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for _, each in _set(value):
            yield from classes_in(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from classes_in(key)
            yield from classes_in(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from classes_in(each)


def imports_of(*values: Any) -> str:
    """The import lines that the text of values needs, in the order of their modules."""
    by_module: dict[str, set[str]] = {}
    for value in values:
        for each in classes_in(value):
            by_module.setdefault(each.__module__, set()).add(each.__name__)
    return "".join(f"from {module} import {', '.join(sorted(names))}\n" for module, names in sorted(by_module.items()))


def _moved(value: Value) -> Iterator[tuple[str, Any]]:
    """The fields of a description that are not at their default; its kind follows from its class."""
    for name, field in type(value).model_fields.items():
        default = PydanticUndefined if field.is_required() else field.get_default(call_default_factory=True)
        item = dict(value)[name]
        if name != "kind" and item != default:
            yield name, item


def _set(value: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(value):
        default = (
            field.default
            if field.default is not MISSING
            else field.default_factory()
            if field.default_factory is not MISSING
            else MISSING
        )
        item = vars(value)[field.name]
        if default is MISSING or item != default:
            yield field.name, item
