"""Paths into a description: read, change, and compare by path. A path may skip the plumbing (`Value.through`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from tomllib import TOMLDecodeError
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel

from anyformer.describe.errors import DescriptionError, did_you_mean
from anyformer.describe.foreign import toml_data
from anyformer.describe.part_set import PartSet
from anyformer.describe.problems import bare_type, classes_of, kinds_of
from anyformer.describe.spelling import spelled
from anyformer.describe.value import PLUGINS, Holder, Value, as_data

V = TypeVar("V", bound=Value)
Key = str | int


def get(value: Value, path: str) -> Any:
    """The value at `path`."""
    return _at(value, resolve(value, path))


def change(value: V, path: str, new: Any) -> V:
    """A copy of `value` with `new` at `path`, validated whole; `None` removes an optional part."""
    return change_all(value, {path: new})


def change_all(value: V, changes: Mapping[str, Any], plugins: Sequence[str] = ()) -> V:
    """`change` for several paths at once: only the result must be valid, not each step on the way.

    A part of a new `kind` takes over the fields that this kind has too; of the others those at their default are left out.
    `plugins`: the names of those that the file of the changes was written with, for errors.
    """
    data = value.plain()
    kinds: dict[str, tuple[list[Key], type[BaseModel]]] = {}
    for path, new in sorted(changes.items(), key=lambda item: not item[0].endswith(".kind")):
        *parents, last = _resolved(value, path, kinds)
        table: Any = data
        for key in parents:
            inner = table.setdefault(key, {}) if isinstance(table, dict) else table[key]
            # A part written as its kind alone is a table once a field of it is set.
            table[key] = table = {"kind": inner} if isinstance(inner, str) else inner
        if last == "kind" and (part := _of_kind(_at(value, parents), new)):
            kinds[path.removesuffix(".kind")] = parents, part
            _leave_out_defaults(table, _at(value, parents), part)
        if new is None and isinstance(table, dict):
            table.pop(last, None)
        else:
            table[last] = as_data(new)
    return type(value).parse({PLUGINS: plugins, **data} if plugins else data)


def parse_assignment(text: str) -> tuple[str, Any]:
    """`path=value` from a command line: the value is TOML, a bare word is a string, `none` removes an optional part."""
    path, equals, right = text.partition("=")
    if not equals or not path.strip():
        raise DescriptionError(f"expected PATH=VALUE, got {text!r}")
    right = right.strip()
    if right == "none":
        return path.strip(), None
    try:
        return path.strip(), toml_data(f"value = {right}")["value"]
    except TOMLDecodeError:
        return path.strip(), right
    except ValueError:
        raise DescriptionError(f"{path.strip()}: {right[:40]}... is no value: too many digits, or nested too deeply") from None


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
        return _at(value, keys)
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
            if here is None and isinstance(key := keys[-1], str) and (annotation := _annotation(_at(value, keys[:-1]), key)):
                raise DescriptionError(f"{path}: {_absent(above, annotation, word)}")
            at = f" in {above}" if index else ""
            raise DescriptionError(f"{path}: nothing is called {word!r}{at}{did_you_mean(word, sorted(set(_names(here))))}")
        if len(ways) > 1:
            choices = ", ".join(".".join(map(str, keys + way)) for way in ways)
            raise DescriptionError(f"{path}: {word!r} could be any of {choices}; write it out")
        for key in ways[0]:
            here = _child(here, key)
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
        here = _child(here, key)
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


def _annotation(owner: Any, key: str) -> Any:
    """What may stand at a key of a value or of a set of parts; None of anything else."""
    if isinstance(owner, PartSet):
        return owner.members[key]
    return type(owner).model_fields[key].annotation if isinstance(owner, Value) else None


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


def _at(here: Any, keys: Iterable[Key]) -> Any:
    for key in keys:
        here = _child(here, key)
    return here


def _resolved(value: Value, path: str, kinds: Mapping[str, tuple[list[Key], type[BaseModel]]]) -> list[Key]:
    """`resolve`, for a path that may also end in a field of the class that the part above it is to become."""
    above, _, last = path.rpartition(".")
    if above in kinds and (field := spelled(last, kinds[above][1].model_fields)) in kinds[above][1].model_fields:
        return [*kinds[above][0], field]
    return resolve(value, path)


def _of_kind(old: Any, kind: Any) -> type[BaseModel] | None:
    """The class of a `kind` in the family of a part."""
    family = type(old).kinds if isinstance(old, Value) else None
    return family.get(kind) if family is not None and isinstance(kind, str) else None


def _leave_out_defaults(table: dict[str, Any], old: Value, part: type[BaseModel]) -> None:
    """Take the fields that the class `part` does not have out of the table of `old`, where they are at their default. What
    either class has behind a field that paths may skip is the same field to both."""
    for name, item in _held(old):
        if name not in type(old).model_fields or name not in part.model_fields:
            *above, last = _place_in(part, name) or [name]
            inner = table
            for key in above:
                inner = inner.setdefault(key, {})
            inner[last] = as_data(item)
    kept = {name for name, _ in _held(old)} | part.model_fields.keys()
    for name in type(old).model_fields:
        if name not in kept or (name not in part.model_fields and _place_in(part, name)):
            table.pop(name, None)


def _held(holder: Holder) -> Iterator[tuple[str, Any]]:
    """The names and values of what is held, behind fields that paths may skip too, but for what is at its default."""
    if isinstance(holder, PartSet):
        yield from holder.items()
    if isinstance(holder, Value):
        for name, field in type(holder).model_fields.items():
            item = getattr(holder, name)
            if name in type(holder).through and isinstance(item, Holder):
                yield from _held(item)
            elif name != "kind" and item != field.get_default(call_default_factory=True):
                yield name, item


def _place_in(part: type[BaseModel], name: str) -> list[str] | None:
    """The fields that lead to a name in a class, behind those that paths may skip; None where it has none."""
    if name in part.model_fields:
        return [name]
    for field in getattr(part, "through", ()):
        inner = bare_type(part.model_fields[field].annotation)
        if get_origin(inner) is PartSet and name in get_args(inner)[0].members:
            return [field, name]
        if isinstance(inner, type) and issubclass(inner, BaseModel) and (place := _place_in(inner, name)):
            return [field, *place]
    return None


def _names(here: Any) -> Iterator[str]:
    """The words that `_find` accepts."""
    if isinstance(here, Value):
        yield from type(here).model_fields
        for field in type(here).through:
            yield from _names(getattr(here, field))
    elif isinstance(here, PartSet):
        yield from here.members
    elif isinstance(here, Mapping):
        yield from here
    elif isinstance(here, tuple):
        for item in here:
            yield from _names(item) if isinstance(item, Value) else ()


def _child(here: Any, key: Key) -> Any:
    if isinstance(here, PartSet):
        return here.get(str(key))
    return getattr(here, str(key)) if isinstance(here, Value) else None if here is None else here[key]


def _are_parts(items: Any) -> bool:
    return isinstance(items, tuple) and all(isinstance(item, Value) for item in items)
