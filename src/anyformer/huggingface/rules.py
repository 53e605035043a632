"""Weight rules: how their tensors become ours and back, as data. One table serves both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

Shapes = Sequence[tuple[int, ...]]


class Op(Protocol):
    """Turns their tensors into ours, of the shapes declared, and ours into theirs."""

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]: ...

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Same:
    """Tensor for tensor."""

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return list(theirs)

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return list(ours)


@dataclass(frozen=True)
class Transposed:
    """Matrices stored as (inputs, outputs): GPT-2's Conv1D, stacked experts of gpt-oss. Vectors stay."""

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x if x.dim() < 2 else x.mT for x in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return self.read(ours, ())


@dataclass(frozen=True)
class Rows:
    """Several of ours one after the other along `dim` of one of theirs: [q; k; v], [gate; up]."""

    dim: int = 0

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return list(torch.split(theirs[0], [shape[self.dim] for shape in shapes], self.dim))

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat(list(ours), self.dim)]


@dataclass(frozen=True)
class Groups:
    """Rows of one of theirs in `count` groups, a share of each of ours in every group: [q; k; v] per head (NeoX, BLOOM)."""

    count: int

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        grouped = theirs[0].unflatten(0, (self.count, -1))  # type: ignore[no-untyped-call]
        return [part.flatten(0, 1) for part in torch.split(grouped, [shape[0] // self.count for shape in shapes], 1)]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        grouped = [x.unflatten(0, (self.count, -1)) for x in ours]  # type: ignore[no-untyped-call]
        return [torch.cat(grouped, 1).flatten(0, 1)]


@dataclass(frozen=True)
class Alternating:
    """Rows along `dim` of one of theirs taken in turn from each of ours: gpt-oss's gate and up."""

    dim: int = 0

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        count = len(shapes)
        return [theirs[0].unflatten(self.dim, (-1, count)).select(self.dim + 1, i) for i in range(count)]  # type: ignore[no-untyped-call]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [torch.stack(list(ours), self.dim + 1).flatten(self.dim, self.dim + 1)]


@dataclass(frozen=True)
class Stacked:
    """One tensor of theirs per expert, and all experts in one of ours along dim 0."""

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        kinds = max(len(shapes), 1)
        experts = len(theirs) // kinds
        return [torch.stack(list(theirs[i * experts : (i + 1) * experts])) for i in range(kinds)]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [expert for stacked in ours for expert in stacked.unbind(0)]


@dataclass(frozen=True)
class Pieces:
    """`count` tensors of theirs one after the other along dim 0 of ours: a norm of each head (StableLM)."""

    count: int

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [torch.cat(list(theirs))]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return list(ours[0].chunk(self.count))


@dataclass(frozen=True)
class Shaped:
    """The same numbers in another shape, `theirs`, with at most one -1. `ours`: where another step follows in `Then`."""

    theirs: tuple[int, ...]
    ours: tuple[int, ...] | None = None

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        if self.ours is not None:
            return [x.reshape(self.ours) for x in theirs]
        return [x.reshape(shape) for x, shape in zip(theirs, shapes, strict=True)]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [x.reshape(self.theirs) for x in ours]


@dataclass(frozen=True)
class Then:
    """`first` on what they have, `second` on what comes of it; back in the other order."""

    first: Op
    second: Op

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return self.second.read(self.first.read(theirs, ()), shapes)

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return self.first.write(self.second.write(ours))


SAME = Same()


@dataclass(frozen=True)
class To:
    """Their name and how their tensors become ours. `{x}` in a name stands for every expert's number, or for `each`."""

    name: str
    op: Op = SAME
    each: tuple[str, ...] | None = None


Target = str | To
Source = str | tuple[str, ...]
Table = Mapping[Any, Target]
"""Our name, or several that are one tensor of theirs, to theirs. A module's name stands for its weight and its bias."""


def under(prefix: str, table: Table) -> Table:
    """A table whose names stand below `prefix`."""
    targets = {ours: to if isinstance(to, To) else To(to) for ours, to in table.items()}
    return {ours: replace(to, name=prefix + to.name) for ours, to in targets.items()}


@dataclass(frozen=True)
class Names:
    """Their names. Ours start at the branch in a layer and skip `sublayer`: `attention.query`; `{i}` is a layer's number."""

    outside: Table
    layers: Mapping[str, tuple[str, Table]]
    """Stack -> their prefix of a layer, and what is in one."""


@dataclass(frozen=True)
class Rule:
    """Their tensors, ours, and how one becomes the other."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    op: Op = SAME


def rules(names: Names, declared: Mapping[str, tuple[int, ...]]) -> list[Rule]:
    """A rule for every declared weight, once; a weight without one is a mistake of the family's table."""
    found: list[Rule] = []
    short = {name.replace(".sublayer", ""): name for name in declared}
    for source, target in names.outside.items():
        found += _matching("", source, target, "", short, declared)
    for stack, (prefix, table) in names.layers.items():
        numbers = sorted({int(name.split(".")[2]) for name in declared if name.startswith(f"{stack}.layers.")})
        for i in numbers:
            for source, target in table.items():
                for rule in _matching(f"{stack}.layers.{i}.", source, target, prefix, short, declared):
                    found.append(replace(rule, theirs=tuple(name.replace("{i}", str(i)) for name in rule.theirs)))
    covered = [name for rule in found for name in rule.ours]
    missing, twice = sorted(declared.keys() - set(covered)), sorted({name for name in covered if covered.count(name) > 1})
    if missing or twice:
        raise LookupError(f"the family's table of names lacks {missing[:6]} and has twice {twice[:6]}")
    return found


def _matching(
    ours: str, source: Source, target: Target, theirs: str, short: Mapping[str, str], declared: Mapping[str, tuple[int, ...]]
) -> list[Rule]:
    """The rules of one line of a table, for each of weight, bias or the parameter itself that is declared."""
    parts = (source,) if isinstance(source, str) else source
    to = target if isinstance(target, To) else To(target)
    found = []
    for leaf in ("", ".weight", ".bias"):
        named = [short.get(f"{ours}{part}{leaf}") for part in parts]
        there = tuple(name for name in named if name is not None)
        if len(there) < len(parts):
            continue
        name = f"{theirs}{to.name}{leaf}"
        each = to.each or tuple(str(x) for x in range(declared[there[0]][0]))
        every = tuple(name.replace("{x}", x) for x in each) if "{x}" in name else (name,)
        found.append(Rule(every, there, to.op))
    return found
