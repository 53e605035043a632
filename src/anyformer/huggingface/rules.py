"""Rules of weights, as data: how stored tensors become parameters and back. One table serves both directions.

Torch is imported by what moves tensors alone: a configuration is read without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

Shapes = Sequence[tuple[int, ...]]
Renaming = str | Callable[[re.Match[str]], str]
"""What takes the place of a pattern in a name: as `re.sub` reads it."""


class Op(Protocol):
    """A conversion of stored tensors into parameters of the shapes declared, and of parameters into stored tensors."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]: ...

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Same:
    """Tensor for tensor."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return list(stored)

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return list(parameters)


@dataclass(frozen=True)
class Transposed:
    """Matrices stored as (inputs, outputs): GPT-2's Conv1D, stacked experts of gpt-oss. Vectors are unchanged."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x if x.dim() < 2 else x.mT for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return self.read(parameters, ())


@dataclass(frozen=True)
class Rows:
    """Several parameters one after the other along `dim` of one stored tensor: [q; k; v], [gate; up]."""

    dim: int = 0

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        return list(torch.split(stored[0], [shape[self.dim] for shape in shapes], self.dim))

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        return [torch.cat(list(parameters), self.dim)]


@dataclass(frozen=True)
class GroupedRows:
    """Rows of one stored tensor in `count` groups, each with a share of every parameter: [q; k; v] per head (BLOOM)."""

    count: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        grouped = stored[0].unflatten(0, (self.count, -1))  # type: ignore[no-untyped-call]
        return [part.flatten(0, 1) for part in torch.split(grouped, [shape[0] // self.count for shape in shapes], 1)]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        grouped = [x.unflatten(0, (self.count, -1)) for x in parameters]  # type: ignore[no-untyped-call]
        return [torch.cat(grouped, 1).flatten(0, 1)]


@dataclass(frozen=True)
class Alternating:
    """Rows along `dim` of one stored tensor that alternate between the parameters: gpt-oss's gate and up."""

    dim: int = 0

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        count = len(shapes)
        return [stored[0].unflatten(self.dim, (-1, count)).select(self.dim + 1, i) for i in range(count)]  # type: ignore[no-untyped-call]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        return [torch.stack(list(parameters), self.dim + 1).flatten(self.dim, self.dim + 1)]


@dataclass(frozen=True)
class BlockedRows:
    """Rows of one stored tensor in `count` equal blocks, each of which is the next few parameters by `inner`."""

    count: int
    inner: Op

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        each = len(shapes) // self.count
        blocks = stored[0].chunk(self.count)
        return [x for i, block in enumerate(blocks) for x in self.inner.read([block], shapes[i * each : (i + 1) * each])]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        each = len(parameters) // self.count
        return [torch.cat([self.inner.write(parameters[i * each : (i + 1) * each])[0] for i in range(self.count)])]


@dataclass(frozen=True)
class Stacked:
    """One stored tensor per expert; the parameter stacks them along dim 0."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        kinds = max(len(shapes), 1)
        experts = len(stored) // kinds
        return [torch.stack(list(stored[i * experts : (i + 1) * experts])) for i in range(kinds)]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [expert for stacked in parameters for expert in stacked.unbind(0)]


@dataclass(frozen=True)
class Concatenated:
    """`count` stored tensors one after the other along dim 0 of a parameter: a norm of each head (StableLM)."""

    count: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        return [torch.cat(list(stored))]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return list(parameters[0].chunk(self.count))


@dataclass(frozen=True)
class JoinedTables:
    """Stored tensors one after the other along dim 0 of a parameter, written with `rows` each: tables of old and new tokens."""

    rows: tuple[int, ...]

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        return [torch.cat(list(stored))]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        return list(torch.split(parameters[0], list(self.rows)))


@dataclass(frozen=True)
class Shaped:
    """The same numbers stored in another shape, with at most one -1; `parameters`: their shape before a next step in `Then`."""

    stored: tuple[int, ...]
    parameters: tuple[int, ...] | None = None

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        if self.parameters is not None:
            return [x.reshape(self.parameters) for x in stored]
        return [x.reshape(shape) for x, shape in zip(stored, shapes, strict=True)]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [x.reshape(self.stored) for x in parameters]


@dataclass(frozen=True)
class Then:
    """`first` on stored tensors, `second` on its results; when writing in reverse order."""

    first: Op
    second: Op

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return self.second.read(self.first.read(stored, ()), shapes)

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return self.first.write(self.second.write(parameters))


SAME = Same()


@dataclass(frozen=True)
class To:
    """A stored name and the conversion to a parameter. `{x}` stands for the number of every expert, or for each of `each`.

    `copies`: more names under which files may hold the same tensor. `idle`: more of `{x}`, whose tensors nothing is computed
    with: transformers has them, and files may lack them.
    """

    name: str
    op: Op = SAME
    each: tuple[str, ...] | None = None
    copies: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


Target = str | To
Source = str | tuple[str, ...]
Table = Mapping[Any, Target]
"""Name of a parameter, or of several in one tensor -> the stored name. A module's name stands for weight and bias."""


def under(prefix: str, table: Table) -> Table:
    """The table with `prefix` before the stored names."""
    targets = {name: to if isinstance(to, To) else To(to) for name, to in table.items()}
    return {name: replace(to, name=prefix + to.name) for name, to in targets.items()}


@dataclass(frozen=True)
class Names:
    """Stored names by ours, which in a layer start at the branch and skip `sublayer`: `attention.query`."""

    outside: Table
    layers: Mapping[str, tuple[str, Table]]
    """Stack -> the stored prefix of a layer, in which `{i}` is its number, and the names in a layer."""


@dataclass(frozen=True)
class WeightRule:
    """Names of stored tensors and of parameters, and the conversion between them.

    `copies`: more names of the one stored tensor, which are written, and when read may be absent but not different.
    `idle`: more tensors of the shape of the first, which are written as zeros, and not read.
    """

    stored: tuple[str, ...]
    parameters: tuple[str, ...]
    op: Op = SAME
    copies: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


def rules(names: Names, declared: Mapping[str, tuple[int, ...]]) -> list[WeightRule]:
    """A rule for every declared weight; `LookupError` where the family's table lacks a weight or has it twice."""
    made: list[WeightRule] = []
    short = {name.replace(".sublayer", ""): name for name in declared}
    for source, target in names.outside.items():
        made += _matching("", source, target, "", short, declared)
    for stack, (prefix, table) in names.layers.items():
        within = f"{stack}.layers."
        numbers = sorted({int(name.removeprefix(within).split(".")[0]) for name in declared if name.startswith(within)})
        for i in numbers:
            for source, target in table.items():
                for rule in _matching(f"{stack}.layers.{i}.", source, target, prefix, short, declared):
                    stored, idle = (tuple(name.replace("{i}", str(i)) for name in names) for names in (rule.stored, rule.idle))
                    made.append(replace(rule, stored=stored, idle=idle))
    covered = Counter(name for rule in made for name in rule.parameters)
    missing, twice = sorted(declared.keys() - covered.keys()), sorted(name for name, count in covered.items() if count > 1)
    if missing or twice:
        raise LookupError(f"the family's table of names lacks {missing[:6]} and has twice {twice[:6]}")
    return made


def _matching(
    prefix: str,
    source: Source,
    target: Target,
    stored_prefix: str,
    short: Mapping[str, str],
    declared: Mapping[str, tuple[int, ...]],
) -> list[WeightRule]:
    """The rules of one line of a table, for each of weight, bias or the parameter itself that is declared."""
    parts = (source,) if isinstance(source, str) else source
    to = target if isinstance(target, To) else To(target)
    made = []
    for leaf in ("", ".weight", ".bias"):
        named = [short.get(f"{prefix}{part}{leaf}") for part in parts]
        parameters = tuple(name for name in named if name is not None)
        if len(parameters) < len(parts):
            continue
        name = f"{stored_prefix}{to.name}{leaf}"
        stored: tuple[str, ...] = (name,)
        if "{x}" in name:
            stored = tuple(name.replace("{x}", x) for x in to.each or map(str, range(declared[parameters[0]][0])))
        idle = tuple(name.replace("{x}", x) for x in to.idle)
        made.append(WeightRule(stored, parameters, to.op, tuple(f"{copy}{leaf}" for copy in to.copies), idle))
    return made
