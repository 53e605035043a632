"""A family as another one with what differs: data, of which a reader-writer is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import FixedTable
from anyformer.huggingface.registry import family
from anyformer.huggingface.rules import Names, Op, To
from anyformer.huggingface.target import Place
from anyformer.huggingface.vocabulary import ValueKind
from anyformer.model import Architecture
from anyformer.porting.changes import ArchitectureChange, Put, changed_all
from anyformer.porting.tensors import pattern_of

Fields = Mapping[str, str]
SHARE = "partial_rotary_factor"
LEAVES = ("weight", "bias")


class RespeltConfig(Config):
    """A configuration whose keys have other names: `keys` maps the name that is asked for to the one in the file.

    `asked`: every name that was asked for, in the words of the one who asks; `filled`: the values of those that are absent.
    """

    def __init__(self, data: Mapping[str, Any], where: str, keys: Fields, target: Any = None) -> None:
        own = {theirs: ours for ours, theirs in keys.items()}
        # A null under the base's own name is no value beside that of the other name.
        kept = {name: value for name, value in data.items() if value is not None or name not in keys}
        super().__init__({own.get(name, name): value for name, value in kept.items()}, where, target=target)
        self.asked = set[str]()
        self.filled = dict[str, Any]()
        self.shares: list[float] = []

    def __call__(self, name: str, default: Any = REQUIRED, at: Place | None = None, *, kind: ValueKind | None = None) -> Any:
        self.asked.add(name)
        value = super().__call__(name, default, at, kind=kind)
        if name not in self._data:
            self.filled[name] = value
        return value

    def expect(self, name: str, *values: Any, why: str = "") -> None:
        self.asked.add(name)
        super().expect(name, *values, why=why)
        if name not in self._data:
            self.filled[name] = self.usual(name, values[0])

    def put_in(self, table: str, name: str, value: Any) -> None:
        """Write a value into a table that was written."""
        self._data[table] = {**self._data[table], name: value}

    @property
    def assumed(self) -> int:
        """The number of keys that the files lack and of which the base has values of its own."""
        return len(self._usual.keys() - {name for name, value in self._data.items() if value is not None})

    @property
    def left(self) -> set[str]:
        """Keys of the file that nobody has asked for."""
        return set(self._left)


@dataclass(frozen=True)
class Derivation:
    """The model type `base`, but for what differs.

    `keys`: a key of the base -> its name here. `absent`: values of keys that the files lack. `pinned`: keys of no known meaning
    -> the only value for which anything was proved; another is refused, and of a table the base reads what is no word.
    `changes`: to the description, in order. `modules`: modules of the base's files -> their names here; `more`: our names of
    weights -> theirs, or the rule (`To`) by which they hold them.
    """

    base: str
    keys: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, Any] = field(default_factory=dict)
    pinned: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[ArchitectureChange, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str | tuple[str, ...], str | To] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    """Entries of tables that the base does not read; the whole table is pinned."""
    share: bool = False
    """Whether the table of rotary settings says the share of a head that rotates, which the base does not read."""

    def read(self, config: Config) -> Architecture:
        """The architecture of a configuration of the new type; or, for a target, its keys."""
        for name, value in self.pinned.items():
            config.expect(name, value, why="its meaning is not known here, and this value is the one that was tried")
        inner = self.inner(config)
        architecture = self.described(inner)
        self._told(config, inner, family(self.base))
        return architecture

    def inner(self, config: Config) -> RespeltConfig:
        """The configuration in the base's words."""
        held = {name: self._known_of(value) for name, value in config.written.items() if name in self.pinned}
        given = {name: value for name, value in config.written.items() if name not in (*self.pinned, "model_type")}
        given |= {name: value for name, value in held.items() if value is not None}
        if self.share:
            given = {name: _without_share(value) for name, value in given.items()}
        inner = RespeltConfig({**given, "model_type": self.base}, config.where, self.keys, config.target)
        inner.assume(**self.absent)
        inner.shares = [value[SHARE] for value in config.written.values() if isinstance(value, Mapping) and SHARE in value]
        return inner

    def _known_of(self, value: Any) -> Any:
        """What the base is given of a value that it is held to: of a table what has no entry aside, or what is no word."""
        if not isinstance(value, Mapping):
            return None
        if any(name in value for name in self.aside):
            return {name: each for name, each in value.items() if name not in self.aside}
        return {name: each for name, each in value.items() if not isinstance(each, str)}

    def described(self, inner: RespeltConfig) -> Architecture:
        """The architecture of a configuration in the base's words."""
        with inner.naming():
            read = family(self.base).read(inner)
            if self.share and inner.shares:
                read = Put("attention.rotary.fraction", float(inner.shares[0]))(read)
            return changed_all(read, self.changes)

    def _told(self, config: Config, inner: RespeltConfig, base: Family) -> None:
        """Tell the outer configuration which keys the base has read, or what it has written."""
        left = inner.left - set(base.inert)
        for name in config.written:
            asked = next((ours for ours, theirs in self.keys.items() if theirs == name), name)
            if asked not in left and name not in self.pinned and name != "model_type":
                config.expect(name, config.written[name])
        if config.target is not None:
            if self.share and "rope_parameters" in inner.written:
                share = config.target.get("attention.rotary.fraction", 1.0)
                inner.put_in("rope_parameters", SHARE, share)
            written = {self.keys.get(name, name): value for name, value in inner.written.items() if name != "model_type"}
            config.put(**{**written, **self.pinned})

    def names(self, architecture: Architecture) -> Names:
        """The stored names of the architecture's weights."""
        return renamed(family(self.base).names_of(architecture), self.modules, self.more)

    @property
    def formulas(self) -> Mapping[str, FixedTable]:
        """The base's stored tables that follow from a formula, but for those that are weights here."""
        held = {_to(to).name for to in self.more.values()}
        names = [name + leaf for name in held for leaf in ("", ".weight")]
        fixed = family(self.base).fixed
        return {pattern: table for pattern, table in fixed.items() if not any(re.fullmatch(pattern, name) for name in names)}

    def family(self, model_type: str, class_name: str, read: Callable[[Config], Architecture] | None = None) -> Family:
        """The family of a model type; `read`: a function of the plug-in that reads by this, by whose module it is known."""
        base = family(self.base)
        return Family(
            model_type,
            read or self.read,
            self.names,
            class_name,
            inert=base.inert,
            ignored=(*base.ignored, *self.ignored),
            fixed=self.formulas,
            kernel=base.kernel,
        )


def renamed(names: Names, modules: Fields, more: Mapping[str | tuple[str, ...], str | To]) -> Names:
    """A table with other names of modules, and with more lines, which replace those of the same weights.

    Lines of a layer have `{i}` in their stored name, and stand in the stack of the layers with the most lines in common.
    """
    said = {part for source in more for part in ((source,) if isinstance(source, str) else source)}
    # A module stands for its weight and its bias, which lines may name one by one.
    covered = said | {f"{source}.{leaf}" for source in said for leaf in LEAVES}

    def kept(source: str | tuple[str, ...]) -> bool:
        return not covered.intersection((source,) if isinstance(source, str) else source)

    def apart(table: Mapping[Any, str | To]) -> Iterator[tuple[Any, str | To]]:
        """The lines that stay: of a module with a new line for one leaf, that of the other."""
        for source, to in table.items():
            leaves = [leaf for leaf in LEAVES if f"{source}.{leaf}" in said]
            if leaves and kept(source):
                rest = [leaf for leaf in LEAVES if leaf not in leaves]
                yield from ((f"{source}.{leaf}", replace(_to(to), name=f"{_to(to).name}.{leaf}")) for leaf in rest)
            elif kept(source):
                yield source, to

    def line(prefix: str, to: str | To, after: str) -> To:
        whole = to if isinstance(to, To) else To(to)
        return replace(whole, name=_renamed(prefix + whole.name, modules).removeprefix(after))

    outside: dict[Any, Any] = {source: line("", to, "") for source, to in apart(names.outside)}
    layers: dict[str, tuple[str, Mapping[Any, Any]]] = {}
    for stack, (prefix, table) in names.layers.items():
        whole = {source: line(prefix, to, "") for source, to in apart(table)}
        added = {source: _to(to) for source, to in more.items() if "{i}" in _to(to).name and _within(stack, to, names)}
        whole |= added
        common = _common([to.name for to in whole.values()])
        layers[stack] = common, {source: replace(to, name=to.name.removeprefix(common)) for source, to in whole.items()}
    outside |= {source: _to(to) for source, to in more.items() if "{i}" not in _to(to).name}
    return Names(outside, layers)


def _without_share(value: Any) -> Any:
    """A table of rotary settings without the share of a head; anything else as it is."""
    return {name: each for name, each in value.items() if name != SHARE} if isinstance(value, Mapping) else value


def _to(target: str | To) -> To:
    return target if isinstance(target, To) else To(target)


def _within(stack: str, target: str | To, names: Names) -> bool:
    """Whether a line of a layer belongs to a stack: of several the one that its name speaks of."""
    return len(names.layers) == 1 or f"{stack}." in _to(target).name


def _renamed(name: str, modules: Fields) -> str:
    """The stored name under its new module, whose leaf may be said in it."""
    if name in modules:
        return modules[name]
    module, _, leaf = name.rpartition(".")
    if module in modules:
        return f"{modules[module]}.{leaf}"
    pattern, layer, _ = pattern_of(name)
    return modules[pattern].replace("{i}", str(layer)) if layer >= 0 and pattern in modules else name


def _common(names: list[str]) -> str:
    """The longest beginning up to `{i}.` that all names have, or nothing."""
    found = {name[: name.index("{i}.") + 4] if "{i}." in name else "" for name in names}
    return found.pop() if len(found) == 1 else ""


__all__ = ["Derivation", "Op", "RespeltConfig", "renamed"]
