"""How well a known family explains a configuration and the names and shapes of its weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anyformer.describe import Notice, UserError
from anyformer.huggingface.config import INERT, Config
from anyformer.huggingface.declared import shapes_in, shapes_of
from anyformer.huggingface.registry import family
from anyformer.huggingface.rules import Names, To, rules
from anyformer.model import Architecture
from anyformer.porting.derivation import Derivation
from anyformer.porting.keys import respelt
from anyformer.porting.refusals import beside, ours
from anyformer.porting.roles import likeness
from anyformer.porting.tensors import FileModule, Shape, idle, pattern_of, split

_RESPELT = 6
"""How often keys are respelt, each time those that were asked for since."""
_STRANGE = 6
"""How many keys with values that the base does not know are left aside."""
LEAST = 0.2
"""Names that are less alike are no names of one module, whatever their shapes."""


@dataclass(frozen=True)
class StoredLine:
    """A line of a family's table of names: our name of the weights, theirs as a module, and what it would hold here."""

    source: tuple[str, ...]
    stack: str
    """The stack whose layers have it; empty outside of layers."""
    module: FileModule


@dataclass(frozen=True)
class Fit:
    """A derived family held against the files. `matched`: module of the derived family -> module of the files.

    `unread`: keys that the base does not ask for, or whose values it does not know. `refusal`: why the base reads nothing of
    it, and then there is no more.
    """

    derivation: Derivation
    architecture: Architecture | None = None
    lines: tuple[StoredLine, ...] = ()
    matched: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[StoredLine, ...] = ()
    left: tuple[FileModule, ...] = ()
    odd: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Module of the derived family -> leaves that either it or its match has alone."""
    unread: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    refusal: str = ""
    assumed: int = 0
    """Values of keys that are the base's own habit, where the files lack the key."""
    instead: Mapping[str, Any] = field(default_factory=dict)
    """Key with a value that the base does not know -> the value that was taken instead."""
    filled: Mapping[str, Any] = field(default_factory=dict)
    """Key that the files lack -> the base's own value."""
    notices: tuple[str, ...] = ()
    """What the base told the user as it read."""

    @property
    def whole(self) -> bool:
        """Whether every tensor is explained, and none is missing."""
        return self.architecture is not None and not self.missing and not self.left and not self.odd

    @property
    def unexplained(self) -> int:
        """Modules without a place on either side, and leaves (biases) that one side has and the other lacks."""
        return len(self.missing) + len(self.left) + sum(len(leaves) for leaves in self.odd.values())


def explained(derivation: Derivation, table: Mapping[str, Any], modules: Mapping[str, FileModule]) -> Fit:
    """The fit of a derived family: keys respelt that its base knows by another name, unknown values of keys left aside."""
    fit = refused = _respelt(derivation, table)
    for _ in range(_STRANGE):
        others = None if fit.architecture else beside(fit.derivation, fit.refusal, fit.filled, table)
        if others is None:
            break
        fit = _respelt(others, table)
    return refused if fit.architecture is None else aligned(fit, modules)


def _respelt(derivation: Derivation, table: Mapping[str, Any]) -> Fit:
    """The reading of a derived family, with the keys respelt that its base knows by another name."""
    fit = _read(derivation, table)
    if "partial_rotary_factor mean" in fit.refusal:
        derivation = replace(derivation, share=True)
        fit = _read(derivation, table)
    for _ in range(_RESPELT):  # a refusal ends the reading before later keys are asked for
        spelt = {ours: theirs for ours, theirs in respelt(fit.asked, fit.unread, table).items() if ours not in derivation.keys}
        if not spelt:
            break
        derivation = replace(derivation, keys={**spelt, **derivation.keys})
        tried = _read(derivation, table)
        if tried.architecture is None and fit.architecture is not None:
            break
        fit = tried
    return fit


def _read(derivation: Derivation, table: Mapping[str, Any]) -> Fit:
    """The derived family's reading of a configuration; a refusal is the reason in words."""
    inner = derivation.inner(Config({name: value for name, value in table.items() if name != "model_type"}))
    inherited = {*INERT, *family(derivation.base).inert, "model_type"}
    architecture, refusal = None, ""
    with warnings.catch_warnings(record=True) as told:  # of many that are tried, only what is proposed may speak
        warnings.simplefilter("always")
        try:
            architecture = derivation.described(inner)
        except (UserError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
            refusal = f"{type(error).__name__}: {error}"
    spelt = {derivation.keys.get(name, name) for name in inner.left - inherited}
    instead = {key: {**inner.filled, **inner.written}.get(ours(key, derivation)) for key in derivation.pinned}
    return Fit(
        derivation,
        architecture,
        unread=tuple(sorted(spelt | derivation.pinned.keys())),
        asked=frozenset(inner.asked),
        refusal=refusal,
        assumed=inner.assumed,
        instead=instead,
        filled=inner.filled,
        notices=tuple(dict.fromkeys(str(each.message) for each in told if issubclass(each.category, Notice))),
    )


def named(fit: Fit) -> Derivation:
    """The derivation that says under which names the files hold the modules of its base."""
    # A module that keeps its name under one that is renamed (`lm_head.dense`) is said too.
    moved = {ours for ours, theirs in fit.matched.items() if ours != theirs}
    others = {ours: theirs for ours, theirs in fit.matched.items() if ours in moved or ours.rpartition(".")[0] in moved}
    modules = {ours: others.pop(theirs, theirs) for ours, theirs in fit.derivation.modules.items()}
    added = {_text(to) for to in fit.derivation.more.values()}
    under = {ours: theirs for ours, theirs in others.items() if ours in added}
    more = {source: _moved(to, under) for source, to in fit.derivation.more.items()}
    return replace(fit.derivation, modules={**modules, **{o: t for o, t in others.items() if o not in under}}, more=more)


def _text(to: str | To) -> str:
    return to.name if isinstance(to, To) else to


def _moved(to: str | To, names: Mapping[str, str]) -> str | To:
    name = names.get(_text(to), _text(to))
    return replace(to, name=name) if isinstance(to, To) else name


def aligned(fit: Fit, modules: Mapping[str, FileModule]) -> Fit:
    """The fit with the lines of its table matched to modules of the files: by name, then by shape and likeness of names."""
    architecture = fit.architecture
    assert architecture is not None, "a fit that was read"
    try:
        lines = tuple(lines_of(fit.derivation.names(architecture), architecture))
    except (LookupError, UserError, ValueError, RuntimeError, AssertionError) as error:
        return replace(fit, architecture=None, refusal=f"its table of names has no place for what was changed: {error}")
    free = dict(modules)
    matched: dict[str, str] = {}
    waiting: list[StoredLine] = []
    for line in lines:
        theirs = free.get(line.module.name)
        if theirs is not None and alike(line.module, theirs):
            matched[line.module.name] = theirs.name
            del free[theirs.name]
        else:
            waiting.append(line)
    pairs = sorted(_pairs(waiting, free), key=lambda pair: -pair[0])
    done = set[str]()
    for _, line, name in pairs:
        if line.module.name not in done and name in free:
            matched[line.module.name] = name
            done.add(line.module.name)
            del free[name]
    missing = tuple(line for line in waiting if line.module.name not in matched)
    beside = (*fit.derivation.ignored, *family(fit.derivation.base).ignored, *fit.derivation.formulas)
    left = tuple(each for each in free.values() if not idle(each, beside))
    odd = {
        line.module.name: tuple(set(line.module.leaves) ^ set(modules[matched[line.module.name]].leaves))
        for line in lines
        if line.module.name in matched
    }
    odd = {name: leaves for name, leaves in odd.items() if leaves}
    return replace(fit, lines=lines, matched=matched, missing=missing, left=left, odd=odd)


def _pairs(lines: list[StoredLine], free: Mapping[str, FileModule]) -> Iterator[tuple[float, StoredLine, str]]:
    """(likeness, line, name of a module) of all that may be one by layers and shapes."""
    for line in lines:
        for name, module in free.items():
            if alike(line.module, module):
                names = (line.module.name, ".".join(line.source))
                found = max(likeness(each, name) for each in names)
                if found >= LEAST:
                    yield found, line, name


def alike(ours: FileModule, theirs: FileModule) -> bool:
    """Whether two modules may be one: equal layers and shapes of their main tensors; a shape that is unknown fits all."""
    if ours.main != theirs.main:
        return False
    left, right = ours.signature(ours.main), theirs.signature(theirs.main)
    return left.keys() == right.keys() and all(_fits(left[at], right[at]) for at in left)


def _fits(ours: tuple[Shape, ...], theirs: tuple[Shape, ...]) -> bool:
    return len(ours) == len(theirs) and all(there is None or here == there for here, there in zip(ours, theirs, strict=True))


def lines_of(names: Names, architecture: Architecture) -> Iterator[StoredLine]:
    """The lines of a table that hold weights of the architecture, each as a module with its layers and shapes."""
    shapes = shapes_of(architecture)
    tables = [("", "", names.outside), *((stack, prefix, table) for stack, (prefix, table) in names.layers.items())]
    numbered: list[tuple[str, str, Any]] = []
    marked: dict[str, Any] = {}
    for stack, prefix, table in tables:
        told: dict[Any, To] = {}
        for source, target in table.items():
            to = target if isinstance(target, To) else To(target)
            mark = (
                f"<{len(numbered)}|{{i}}|{'{x}' if '{x}' in to.name else ''}>"
                if stack
                else f"<{len(numbered)}|-1|{'{x}' if '{x}' in to.name else ''}>"
            )
            told[source] = replace(to, name=mark, copies=(), idle=())
            numbered.append((stack, prefix + to.name, source))
        marked[stack] = told
    made = rules(Names(marked.pop(""), {stack: ("", table) for stack, table in marked.items()}), shapes)
    found: dict[int, dict[str, dict[int, tuple[Shape, ...]]]] = {}
    for rule in made:
        mark, _, leaf = rule.stored[0].partition(">")
        at, layer, _ = mark.removeprefix("<").split("|")
        name = numbered[int(at)][1]
        ends = split(f"{name}{leaf}")[1]
        held = tuple(shapes_in(rule, shapes).values())
        # A line outside of layers may be stored with the first of them: T5's table of relative positions.
        number = pattern_of(name)[1] if layer == "-1" else int(layer)
        found.setdefault(int(at), {}).setdefault(ends, {})[number] = held
    joined: dict[str, StoredLine] = {}
    for number, leaves in sorted(found.items()):
        stack, name, source = numbered[number]
        name = name if stack else pattern_of(name)[0]
        whole = split(name)[0] if split(name)[1] in leaves else name
        before = joined.get(whole)
        # Layers with a network and layers with experts have two lines of one module: the norm before either.
        line = StoredLine((source,) if isinstance(source, str) else source, stack, FileModule(whole, leaves))
        joined[whole] = line if before is None else replace(before, module=_both(before.module, line.module))
    yield from joined.values()


def _both(one: FileModule, other: FileModule) -> FileModule:
    """One module of the layers of two."""
    leaves = {**one.leaves, **other.leaves}
    return FileModule(one.name, {leaf: {**one.leaves.get(leaf, {}), **other.leaves.get(leaf, {})} for leaf in leaves})
