"""The old layer from which each new one comes, when a stack grows or is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from anyformer.parts.layers.stack import Stack
from anyformer.transforming.errors import TransformError
from anyformer.transforming.operation import Copied, Fresh, MadeWeight, Operation


@dataclass(frozen=True)
class Origin:
    """The old `layer` that a new one comes from; `added`: that layer has another place in the new stack."""

    layer: int
    added: bool


def origins(old: Stack, new: Stack, given: tuple[int, ...] | None, where: str) -> tuple[Origin, ...]:
    """For each new layer where it comes from: as `given`, or one to one, or spread evenly over the layers of its variant."""
    if given is None:
        return _spread(old, new, where)
    numbers = _checked(given, old, new, where)
    return tuple(Origin(number, number in numbers[:i]) for i, number in enumerate(numbers))


def _checked(given: tuple[int, ...], old: Stack, new: Stack, where: str) -> tuple[int, ...]:
    if len(given) != new.depth:
        raise TransformError(f"{where}: {len(given)} layers are chosen, and the new stack has {new.depth}; choose as many")
    if max(given) >= old.depth:
        raise TransformError(f"{where}: layer {max(given)} is chosen, and the last of {old.depth} is {old.depth - 1}")
    return given


def _spread(old: Stack, new: Stack, where: str) -> tuple[Origin, ...]:
    """One to one; else the shorter order is found within the longer one, spread as evenly as variants allow."""
    if old.depth == new.depth:
        return tuple(Origin(i, added=False) for i in range(new.depth))
    alike = len(old.variants) == 1 or len(new.variants) == 1
    theirs, ours = (("",) * old.depth, ("",) * new.depth) if alike else (old.layers, new.layers)
    if new.depth < old.depth:
        step = (old.depth - 1) / (new.depth - 1) if new.depth > 1 else 0.0
        found = _embedded(ours, theirs, [i * step for i in range(new.depth)])
    else:
        found = _embedded(theirs, ours, [i * new.depth // old.depth for i in range(old.depth)])
    if found is None:
        raise TransformError(
            f"{where}: {old.order!r} -> {new.order!r}: the shorter order does not stand within the longer one; choose the old "
            "layers of the new ones (`layers`, or --layers)"
        )
    if new.depth < old.depth:
        return tuple(Origin(layer, added=False) for layer in found)
    return tuple(Origin(layer, added=i not in found) for i, layer in enumerate(_filled(found, theirs, ours)))


def _embedded(short: Sequence[str], long: Sequence[str], ideal: Sequence[float]) -> tuple[int, ...] | None:
    """Rising places in `long` of each item of `short`, at the least distance in all from the `ideal` ones; None without any."""
    best: list[list[tuple[float, int]]] = []
    for i, item in enumerate(short):
        row, least = [], (inf, -1)
        for j, other in enumerate(long):
            before = 0.0 if i == 0 else best[i - 1][j - 1][0] if j else inf
            here = before + abs(j - ideal[i]) if item == other else inf
            least = min(least, (here, j), key=lambda pair: pair[0])
            row.append(least)
        best.append(row)
    if best[-1][-1][0] == inf:
        return None
    places = [best[-1][-1][1]]
    for row in reversed(best[:-1]):
        places.append(row[places[-1] - 1][1])
    return tuple(reversed(places))


def _filled(places: Sequence[int], old: Sequence[str], new: Sequence[str]) -> tuple[int, ...]:
    """The old layer of each new one: its own, or where none stands that of its variant before it, else the first of them."""
    numbers, last = dict(zip(places, range(len(old)), strict=True)), {name: i for i, name in reversed(list(enumerate(old)))}
    filled = []
    for i, name in enumerate(new):
        last[name] = numbers.get(i, last.get(name, 0))
        filled.append(last[name])
    return tuple(filled)


def check_silent(old: Stack, new: Stack, sublayer_reasons: Sequence[str], where: str) -> None:
    """Refuse added layers that write nothing and still change the stream."""
    reasons = list(sublayer_reasons)
    if any(step.shapes_residual for block in new.variants.values() for step in block.steps):
        reasons.append("a norm, factor or gain of the stream itself")
    if any(block.output == "aside" for block in new.variants.values()):
        reasons.append("an output aside, which other layers read of the latest one")
    if new.streams is not None:
        reasons.append("several streams that layers mix")
    if reasons:
        raise TransformError(
            f"{where}: an added layer cannot be silent, for it has {' and '.join(reasons)}; take plain copies "
            "(grow = 'copied', or --grow copied)"
        )


@dataclass(frozen=True)
class Added:
    """The weights of an added layer: a copy of another layer's; those that write to the stream are 0 if it is `silent`.

    Silent copies: Wu et al. 2024, arXiv 2401.02415 (LLaMA Pro), section 3.2: the model computes what it did. Plain copies:
    Kim et al. 2023, arXiv 2312.15166 (SOLAR), section 2.
    """

    inner: Operation
    silent: tuple[bool, ...]
    """For each weight that `inner` makes whether it is 0."""

    @property
    def words(self) -> str:
        own = "0, so that the added layer adds nothing at first" if all(self.silent) else "of an added layer"
        return f"{own}; {self.inner.words}" if self.inner.words and not all(self.silent) else own

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        copies = Copied(self.inner, "")(given, fresh)
        return [
            MadeWeight(torch.zeros_like(made.value), "new") if silent else made
            for made, silent in zip(copies, self.silent, strict=True)
        ]
