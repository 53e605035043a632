"""Change a description by path: a value, a whole part, another kind, or a copy of what has a name under another name."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from anyformer.describe.amounts import Amount, BinarySize, read
from anyformer.describe.another_kind import keep_common, place_in
from anyformer.describe.errors import DescriptionError, Notice
from anyformer.describe.named import Named
from anyformer.describe.nearest import nearest
from anyformer.describe.part_set import Part, PartSet
from anyformer.describe.path import Key, annotation_of, child, field_of, names_in, resolve, value_at
from anyformer.describe.problems import bare_type, classes_of, kinds_of
from anyformer.describe.spelling import spelled
from anyformer.describe.value import PLUGINS, Value, as_data

V = TypeVar("V", bound=Value)


def change(value: V, path: str, new: Any) -> V:
    """A copy of `value` with `new` at `path`, validated whole; `None` removes an optional part."""
    return change_all(value, {path: new})


def change_all(value: V, changes: Mapping[str, Any], plugins: Sequence[str] = ()) -> V:
    """`change` for several paths at once: only the result must be valid, not each step on the way.

    A part of a new `kind` takes over the fields that this kind has too; a `Notice` names the others that were not at their
    default, which are left out. The name of what stands in a table of names, given to a name that is not there yet, copies it
    (`decoder.local = "layer"`), with the changes said before. `plugins`: the names of those that the file of the changes was
    written with, for errors.
    """
    made = changed(value, changes, plugins)
    for note in made.notes:
        warnings.warn(note, Notice, stacklevel=2)
    return made.value


@dataclass(frozen=True)
class NotedChange(Generic[V]):
    """What changes have made, and `notes` of what went with a part's old kind."""

    value: V
    notes: tuple[str, ...]


def changed(value: V, changes: Mapping[str, Any], plugins: Sequence[str] = ()) -> NotedChange[V]:
    """`change_all`, with its notes as data."""
    draft = _Draft(value, changes)
    waiting: dict[str, Any] = {}
    for path in _wholes_first(changes):
        if (copied := draft.copied(path, changes[path])) is None:
            waiting[path] = changes[path]
            continue
        draft.take(waiting)
        draft.copy(copied, path.rpartition(".")[2])
        waiting = {}
    draft.take(waiting)
    data = draft.written()
    return NotedChange(type(value).parse({PLUGINS: plugins, **data} if plugins else data), tuple(draft.notes))


def _wholes_first(changes: Mapping[str, Any]) -> Iterator[str]:
    """Paths in the order given, but a whole before what is in it."""
    above = {path: [other for other in changes if path.startswith(f"{other}.")] for path in changes}
    yield from dict.fromkeys(each for path in changes for each in (*sorted(above[path], key=len), path))


class _Draft:
    """A description that is being changed. `data`: what will be validated; `value`: where paths lead, which is not valid;
    `given`: the paths of all changes."""

    def __init__(self, value: Value, given: Collection[str]) -> None:
        self.value, self.data, self.given = value, value.plain(), given
        self.kinds: dict[tuple[Key, ...], type[BaseModel]] = {}
        self.notes: list[str] = []
        self.emptied: list[tuple[list[Any], Any]] = []

    def take(self, changes: Mapping[str, Any]) -> None:
        """Put values at their paths: kinds before the fields that they have."""
        for path, new in sorted(changes.items(), key=lambda item: not item[0].endswith(".kind")):
            self._set(path, new)

    def written(self) -> dict[str, Any]:
        """The data, without rows that have lost all they held."""
        for rows, row in self.emptied:
            rows[:] = [each for each in rows if each is not row]
        return self.data

    def copied(self, path: str, new: Any) -> list[Key] | None:
        """The keys of what a new name is to be a copy of; None where the name is there, or `new` is no name beside it."""
        above, _, name = path.rpartition(".")
        if not isinstance(new, str) or not name or self._leads(path) is not None:
            return None
        keys = self._leads(f"{above}.{new}" if above else new)
        return keys if keys is not None and isinstance(value_at(self.value, keys[:-1]), Named) else None

    def copy(self, keys: Sequence[Key], name: str) -> None:
        """Put a copy of what stands at some keys beside it under another name."""
        *above, old = keys
        table: Any = self.data
        for key in above:
            table = table[key]
        table[name] = deepcopy(table[old])
        beside = value_at(self.value, above)
        self.value = _with(self.value, above, Named({**beside, name: beside[old]}))
        size = len(keys)
        inside = {place: part for place, part in self.kinds.items() if place[:size] == tuple(keys)}
        self.kinds |= {(*above, name, *place[size:]): part for place, part in inside.items()}

    def _set(self, path: str, new: Any) -> None:
        *parents, last = self._to_part(self._resolved(path, new), new)
        table: Any = self.data
        way = []
        for key in parents:
            inner = table.setdefault(key, {}) if isinstance(table, dict) else table[key]
            # A part written as its kind alone is a table once a field of it is set.
            table[key] = inner = {"kind": inner} if isinstance(inner, str) else inner
            way.append(table)
            table = inner
        here = value_at(self.value, parents)
        new = None if new is None else self._read(parents, last, _written_out(here, last, new), path)
        if last == "kind" and (part := _of_kind(here, new)):
            self.kinds[tuple(parents)] = part
            self._note(path, new, keep_common(table, here, part))
        if new is None and isinstance(table, dict):
            table.pop(last, None)
            if not table and isinstance(here, Named) and isinstance(way[-2], list):
                self.emptied.append((way[-2], way[-1]))
        else:
            table[last] = as_data(new)
            self._stands([*parents, last], new)

    def _note(self, path: str, kind: str, left: Sequence[str]) -> None:
        """Tell what went with the old kind, but for what is given anew."""
        if names := [name for name in left if f"{path.removesuffix('kind')}{name}" not in self.given]:
            self.notes.append(f"{path}={kind} leaves out what {kind} has no field for: {', '.join(names)}")

    def _read(self, parents: Sequence[Key], last: Key, new: Any, path: str) -> Any:
        """What is given, with numbers for what was typed as such."""
        if not isinstance(new, Amount | Mapping | list):
            return new
        holders = [value_at(self.value, parents[:end]) for end in range(len(parents) + 1)]
        part = self.kinds.get(tuple(parents))
        field = part.model_fields.get(str(last)) if part else field_of(holders[-1], last)
        marked = field is not None and any(isinstance(each, BinarySize) for each in field.metadata)
        size = marked or any(isinstance(each, Value) and each.of_sizes for each in holders)
        return read(new, annotation_of(holders[-1], last) if field is None else field.annotation, path, size=size)

    def _stands(self, keys: Sequence[Key], new: Any) -> None:
        """Let paths lead into a whole part that was given; into one that is not complete to its own fields."""
        owner, key = value_at(self.value, keys[:-1]), keys[-1]
        part = type(new) if isinstance(new, Value) else _class_of(owner, key, new)
        if part is None:
            return
        try:
            whole = part.model_validate(part.given(new) if issubclass(part, Part) else as_data(new))
        except ValidationError:
            self.kinds[tuple(keys)] = part
        else:
            self.value = _with(self.value, keys, whole)

    def _leads(self, path: str) -> list[Key] | None:
        """The keys of a path; None where it leads nowhere."""
        try:
            return resolve(self.value, path)
        except DescriptionError:
            return None

    def _resolved(self, path: str, new: Any) -> list[Key]:
        """`resolve`, for a path that may also end in a field of the class that the part above it is to become."""
        above, _, last = path.rpartition(".")
        parents = tuple((self._leads(f"{above}.kind") or [""])[:-1])
        if parents in self.kinds and (field := spelled(last, fields := self.kinds[parents].model_fields)) in fields:
            return [*parents, field]
        try:
            keys = resolve(self.value, path)
            # What the part has as yet, and its new class perhaps nowhere: then it stands where the refusal names it.
            within = parents in self.kinds and tuple(keys[: len(parents)]) == parents
            return [*parents, *(place_in(self.kinds[parents], last) or [last])] if within else keys
        except DescriptionError as error:
            raise DescriptionError(f"{error}{self._how_to_add(path.split('.'), new)}") from None

    def _to_part(self, keys: list[Key], new: Any) -> list[Key]:
        """The keys of the part that a whole part takes the place of: behind what a path may skip, where this is of no kind."""
        here = _held_at(value_at(self.value, keys[:-1]), keys[-1])
        says_kind = isinstance(new, Value) or (isinstance(new, Mapping) and "kind" in new)
        while (
            says_kind and isinstance(here, Value) and "kind" not in type(here).model_fields and not isinstance(new, type(here))
        ):
            parts = [field for field in type(here).through if isinstance(getattr(here, field), Value)]
            if len(parts) != 1:
                break
            keys, here = [*keys, *parts], getattr(here, parts[0])
        return keys

    def _how_to_add(self, words: Sequence[str], new: Any) -> str:
        """How a name is added where one of a path is not there, and others are that can be copied."""
        at = next(at for at in range(len(words)) if self._leads(".".join(words[: at + 1])) is None)
        above, word = ".".join(words[:at]), words[at]
        here = value_at(self.value, resolve(self.value, above)) if above else self.value
        tables = [here] if isinstance(here, Named) else [child(here, name) for name in _through(here)]
        names = [name for table in tables if isinstance(table, Named) for name in table]
        if not names:
            return ""
        meant = nearest(new, names) if isinstance(new, str) and at + 1 == len(words) else []
        own = "NAME" if nearest(word, set(names_in(here))) else word
        place = ".".join([*words[:at], own])
        return f"; {place}={(meant or names)[0]} adds a copy under that name"


def _through(here: Any) -> tuple[str, ...]:
    return type(here).through if isinstance(here, Value) else ()


def _with(here: Any, keys: Sequence[Key], new: Any) -> Any:
    """A copy that is not validated, with something else at some keys."""
    if not keys:
        return new
    key, *rest = keys
    inner = _with(child(here, key), rest, new)
    if isinstance(here, Value):
        other = copy(here)
        other.__dict__[str(key)] = inner
        return other
    if isinstance(here, tuple):
        return tuple(inner if at == key else each for at, each in enumerate(here))
    return here.but(**{str(key): inner}) if isinstance(here, PartSet) else Named({**here, str(key): inner})


def _held_at(here: Any, key: Key) -> Any:
    """What stands at a key; None where only the kind that a part is to become has it."""
    return None if isinstance(here, Value) and key not in type(here).model_fields else child(here, key)


def _written_out(owner: Any, key: Key, new: Any) -> Any:
    """What is given for a part of a set, or for a set by one part that says its name as a kind, as tables have it."""
    if isinstance(owner, PartSet):
        return owner.members[str(key)].given(new)
    here = _held_at(owner, key)
    if not isinstance(here, PartSet) or not isinstance(new, Mapping) or "kind" not in new or "kind" in here.members:
        return new
    return {new["kind"]: {name: item for name, item in new.items() if name != "kind"}}


def _class_of(owner: Any, key: Key, new: Any) -> type[BaseModel] | None:
    """The class of a part that is given as a table; None of anything else."""
    if not isinstance(new, Mapping):
        return None
    classes = classes_of(bare_type(annotation_of(owner, key)))
    kinds, kind = kinds_of(classes), new.get("kind")
    if not classes:
        return _of_kind(_held_at(owner, key), kind)
    return kinds.get(str(kind)) if kinds else classes[0] if len(classes) == 1 else None


def _of_kind(old: Any, kind: Any) -> type[BaseModel] | None:
    """The class of a `kind` in the family of a part."""
    family = type(old).kinds if isinstance(old, Value) else None
    return family.get(kind) if family is not None and isinstance(kind, str) else None
