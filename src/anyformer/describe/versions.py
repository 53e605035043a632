"""The version of written descriptions, and what older ones become when they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyformer.describe.errors import DescriptionError

VERSION = 2
"""1: attention had a field per option; 2: attention has slots."""
KEY = "version"
"""The key of a written description that has it; files without one are of version 1."""
_UPGRADES: list[Callable[[dict[str, Any]], dict[str, Any]]] = []


def upgrade(table: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Register what one table of an older description becomes; a table of today stays as it is."""
    _UPGRADES.append(table)
    return table


def upgraded(data: Any, where: str = "", *, versioned: bool = True) -> Any:
    """Plain data of any version as data of this one, without the version; refuses a later one. `versioned`: whether it is of a
    description that says its version; a part of one does not."""
    if not isinstance(data, Mapping):
        return data
    if not versioned:
        return _moved(dict(data))
    version = data.get(KEY, 1)
    if type(version) is not int or version < 1:
        raise DescriptionError(f"version: should be a whole number above 0, got {version!r}", where=where)
    if version > VERSION:
        raise DescriptionError(
            f"version: this was written by a later anyformer, in version {version} of descriptions; this one reads up to "
            f"{VERSION}: install the later one",
            where=where,
        )
    data = {name: item for name, item in data.items() if name != KEY}
    return data if version == VERSION else _moved(data)


def _moved(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_moved(item) for item in data]
    if not isinstance(data, dict):
        return data
    table = {name: _moved(item) for name, item in data.items()}
    for change in _UPGRADES:
        table = change(table)
    return table
