"""Paths into a description: read and compare by path. A path may skip the plumbing (`Value.through`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic.fields import FieldInfo

from anyformer.describe.errors import DescriptionError, did_you_mean
from anyformer.describe.part_set import PartSet
from anyformer.describe.problems import bare_type, classes_of, kinds_of
from anyformer.describe.spelling import spelled
from anyformer.describe.value import Value

Key = str | int


def get(value: Value, path: str) -> Any:
    """The value at `path`."""
    return value_at(value, resolve(value, path))


def diff(left: Value, right: Value) -> list[tuple[str, Any, Any]]:
    """(path, left, right) of every place where two values differ; `None` stands for an absent part."""
    return [(path_in(left, right, keys), ours, theirs) for keys, ours, theirs in differences(left, right)]


def differences(left: Any, right: Any, keys: tuple[Key, ...] = ()) -> Iterator[tuple[tuple[Key, ...], Any, Any]]:
    """(keys, left, right) of every place where two values differ; `keys`: those of the values, which the others follow."""
    if left == right:
        return
    if isinstance(left, Value) and type(left) is type(right):
        for name in type(left).model_fields:
            yield from differences(getattr(left, name), getattr(right, name), (*keys, name))
    elif isinstance(left, Mapping) and isinstance(right, Mapping):
        for name in dict.fromkeys([*left, *right]):
            yield from differences(left.get(name), right.get(name), (*keys, name))
    elif _are_parts(left) and _are_parts(right) and len(left) == len(right):
        for at, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            yield from differences(ours, theirs, (*keys, at))
    else:
        yield keys, left, right


def item_at(value: Any, keys: Iterable[Key]) -> Any:
    """The item at some keys; of a name or a number that is not there, None."""
    try:
        return value_at(value, keys)
    except (KeyError, IndexError):
        return None


def resolve(value: Value, path: str) -> list[Key]:
    """The full keys of a path that may skip plumbing; unknown names are refused with a suggestion."""
    keys: list[Key] = []
    here: Any = value
    words = path.split(".")
    for index, word in enumerate(words):
        ways = list(_find(here, word))
        if not ways:
            above = ".".join(words[:index])
            if (
                here is None
                and isinstance(key := keys[-1], str)
                and (annotation := annotation_of(value_at(value, keys[:-1]), key))
            ):
                raise DescriptionError(f"{path}: {_absent(above, annotation, word)}")
            at = f" in {above}" if index else ""
            raise DescriptionError(f"{path}: nothing is called {word!r}{at}{did_you_mean(word, sorted(set(names_in(here))))}")
        if len(ways) > 1:
            choices = ", ".join(".".join(map(str, keys + way)) for way in ways)
            raise DescriptionError(f"{path}: {word!r} could be any of {choices}; write it out")
        for key in ways[0]:
            here = child(here, key)
        keys += ways[0]
    return keys


def shortest(value: Value, keys: Sequence[Key]) -> str:
    """The shortest path that leads from a value to some keys: without what a path may skip, where it leads nowhere else."""
    if len(keys) == 1:
        return str(keys[0])
    # Of parts in a row, as the steps of a block, the number says which.
    row = {at + more for at, key in enumerate(keys) if isinstance(key, int) for more in (-1, 0)}
    for kept in (set[int](), row, {len(keys) - 2}):
        path = bare(value, keys, kept)
        try:
            if resolve(value, path) == list(keys):
                return path
        except DescriptionError:  # several are called so
            continue
    return ".".join(map(str, keys))


def bare(value: Value, keys: Sequence[Key], kept: Collection[int] = ()) -> str:
    """The path to some keys without those that may be skipped, but for some places that are kept; the last is always said."""
    words, here = [], cast(Any, value)
    for at, key in enumerate(keys):
        skipped = isinstance(key, int) or (isinstance(here, Value) and key in type(here).through)
        if not skipped or at in kept or at + 1 == len(keys):
            words.append(str(key))
        here = child(here, key)
    return ".".join(words)


def path_in(left: Value, right: Value, keys: Sequence[Key]) -> str:
    """The path of a difference, in the one that has a place for it; with numbers instead of names where neither has."""
    for value in (left, right):
        try:
            return shortest(value, keys)
        except (KeyError, IndexError):  # a name or a place in a row that the other has
            continue
    return ".".join(map(str, keys))


def _absent(path: str, annotation: Any, word: str) -> str:
    """Why a field of a part that is absent cannot be set, and how the part is."""
    kinds = [kind for kind, part in kinds_of(classes_of(bare_type(annotation))).items() if word in part.model_fields]
    if not kinds:
        return f"{path} is absent: set it as a whole first"
    return f"{path} is absent: set it as a whole, as in {path}={{kind=...,{word}=...}}, of kind {' or '.join(map(repr, kinds))}"


def annotation_of(owner: Any, key: Key) -> Any:
    """What may stand at a key of a value or of a set of parts; None of anything else."""
    if isinstance(owner, PartSet):
        return owner.members[str(key)]
    field = field_of(owner, key)
    return None if field is None else field.annotation


def field_of(owner: Any, key: Key) -> FieldInfo | None:
    """The field of a value at a key; None of anything else."""
    return type(owner).model_fields.get(str(key)) if isinstance(owner, Value) else None


def _find(here: Any, word: str) -> Iterator[list[Key]]:
    """The keys of every way from `here` to `word`: a field or name of its own, or one behind the plumbing."""
    if isinstance(here, Value):
        if (field := spelled(word, type(here).model_fields)) in type(here).model_fields:
            yield [field]
            return
        for field in type(here).through:
            for way in _find(getattr(here, field), word):
                yield [field, *way]
    elif isinstance(here, PartSet):
        if (name := spelled(word, here.members)) in here.members:
            yield [name]
    elif isinstance(here, Mapping):
        if word in here:
            yield [word]
    elif isinstance(here, tuple):
        if word.isdigit() and int(word) < len(here):
            yield [int(word)]
        elif not word.isdigit():
            for index, item in enumerate(here):
                if isinstance(item, Value):
                    for way in _find(item, word):
                        yield [index, *way]


def value_at(here: Any, keys: Iterable[Key]) -> Any:
    """The value at some keys."""
    for key in keys:
        here = child(here, key)
    return here


def names_in(here: Any) -> Iterator[str]:
    """The words that may follow in a path."""
    if isinstance(here, Value):
        yield from type(here).model_fields
        for field in type(here).through:
            yield from names_in(getattr(here, field))
    elif isinstance(here, PartSet):
        yield from here.members
    elif isinstance(here, Mapping):
        yield from here
    elif isinstance(here, tuple):
        for item in here:
            yield from names_in(item) if isinstance(item, Value) else ()


def child(here: Any, key: Key) -> Any:
    """What stands at a key of a value, a table or a row; None in what is absent."""
    if isinstance(here, PartSet):
        return here.get(str(key))
    return getattr(here, str(key)) if isinstance(here, Value) else None if here is None else here[key]


def _are_parts(items: Any) -> bool:
    return isinstance(items, tuple) and all(isinstance(item, Value) for item in items)
