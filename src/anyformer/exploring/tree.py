"""The parts of a description as a tree, every part with a short path that `--set` takes.

What holds other parts and is none itself belongs to what it holds: a branch to its sublayer, the steps of a block to the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.describe import PartSet, Value
from anyformer.describe.path import Key, bare, shortest

Keys = tuple[Key, ...]
Owner = tuple[Keys, Value]
"""A description, and the keys that lead to it from the part that it belongs to."""
Slot = tuple[type[Value], str]
"""A field in which a part stands: the class that has it, and its name."""


@dataclass(frozen=True)
class TreeField:
    """A field of a part: the description that has it, its name and path, and the path of the part that stands in it."""

    owner: Value
    name: str
    path: str
    part: str | None

    @property
    def value(self) -> Any:
        return getattr(self.owner, self.name)


@dataclass(frozen=True)
class TreePart:
    """A part at a path, which is '' of the whole. `address`: the path without all that may be skipped, which several parts may
    share; `value`: what it is; `slot`: where it stands; `fields`: all but its kind."""

    path: str
    address: str
    parent: str | None
    depth: int
    value: Value
    slot: Slot | None
    fields: tuple[TreeField, ...]


def tree(root: Value) -> list[TreePart]:
    """Every part of a description, those that hold others first."""
    return list(_parts(root, "", "", None, 0, None))


def _parts(value: Value, path: str, address: str, parent: str | None, depth: int, slot: Slot | None) -> Iterator[TreePart]:
    owners = list(_owners(value, ()))
    what, slot = next(_kinds(owners), (value, slot))
    fields, inner = list[TreeField](), list[tuple[Keys, Value, Slot]]()
    for at, owner in owners:
        for name in type(owner).model_fields:
            item, belongs = getattr(owner, name), _belongs(owner, name)
            if name == "kind" or (belongs and not isinstance(item, Mapping)):
                continue
            inner += [(keys, each, (type(owner), name)) for keys, each in _held(item, (*at, name))]
            if not belongs:
                own = _joined(path, shortest(value, (*at, name)))
                fields.append(TreeField(owner, name, own, own if isinstance(item, Value) else None))
    yield TreePart(path, address, parent, depth, what, slot, tuple(fields))
    for keys, each, where in inner:
        named = _joined(address, bare(value, keys))
        yield from _parts(each, _joined(path, shortest(value, keys)), named, path, depth + 1, where)


def _owners(value: Value, keys: Keys) -> Iterator[Owner]:
    """A description and those that belong to it, outermost first."""
    yield keys, value
    for name in type(value).through:
        if _belongs(value, name) and not isinstance(getattr(value, name), Mapping):
            for inside, each in _held(getattr(value, name), (*keys, name)):
                yield from _owners(each, inside)


def _kinds(owners: list[Owner]) -> Iterator[tuple[Value, Slot]]:
    """Of what belongs to a part that which has a kind, and where it stands."""
    at = dict(owners)
    for keys, owner in owners:
        if "kind" in type(owner).model_fields and keys[:-1] in at and keys:
            yield owner, (type(at[keys[:-1]]), str(keys[-1]))


def _belongs(owner: Value, name: str) -> bool:
    """Whether a field holds what the owner, which is of no kind, is there for."""
    if name not in type(owner).through or "kind" in type(owner).model_fields:
        return False
    return not isinstance(getattr(owner, name), PartSet)


def _held(item: Any, keys: Keys) -> Iterator[Owner]:
    """The descriptions in the value of a field."""
    if isinstance(item, Value):
        yield keys, item
        return
    pairs = item.items() if isinstance(item, Mapping) else enumerate(item) if isinstance(item, tuple) else ()
    for key, each in pairs:
        if isinstance(each, Value):
            yield (*keys, key), each


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
