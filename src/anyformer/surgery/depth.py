"""The old layer from which each new one comes, when a stack grows or is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.layers.stack import Stack
from anyformer.surgery.errors import SurgeryError
from anyformer.surgery.operation import Fresh, Made, Operation


@dataclass(frozen=True)
class Origin:
    """The old `layer` that a new one comes from; `added`: it stands in the new stack before this one already."""

    layer: int
    added: bool


def origins(old: Stack, new: Stack, given: tuple[int, ...] | None, where: str) -> tuple[Origin, ...]:
    """For each new layer where it comes from: as `given`, or one to one, or spread evenly over the layers of its variant."""
    numbers = _spread(old, new, where) if given is None else _checked(given, old, new, where)
    return tuple(Origin(number, number in numbers[:i]) for i, number in enumerate(numbers))


def _checked(given: tuple[int, ...], old: Stack, new: Stack, where: str) -> tuple[int, ...]:
    if len(given) != new.depth:
        raise SurgeryError(f"{where}: {len(given)} layers are chosen, and the new stack has {new.depth}; choose as many")
    if max(given) >= old.depth:
        raise SurgeryError(f"{where}: layer {max(given)} is chosen, and the last of {old.depth} is {old.depth - 1}")
    return given


def _spread(old: Stack, new: Stack, where: str) -> tuple[int, ...]:
    if old.depth == new.depth:
        return tuple(range(new.depth))
    places = {name: [i for i, each in enumerate(old.layers) if each == name] for name in old.variants}
    if len(places) == 1:
        places = dict.fromkeys(new.variants, *places.values())
        counts = dict.fromkeys(new.variants, new.depth)
    else:
        counts = {name: new.layers.count(name) for name in new.variants}
    unknown = [name for name in new.variants if name not in places]
    if unknown:
        raise SurgeryError(
            f"{where}: {old.depth} -> {new.depth} layers, and the old stack has no variant {unknown[0]!r}; choose the layers "
            "(`layers`, or --layers)"
        )
    seen = dict.fromkeys(new.variants, 0)
    numbers = []
    for i, name in enumerate(new.layers):
        at, count = (i, counts[name]) if len(old.variants) == 1 else (seen[name], counts[name])
        seen[name] += 1
        numbers.append(places[name][_nth(at, count, len(places[name]))])
    return tuple(numbers)


def _nth(at: int, count: int, there: int) -> int:
    """Place `at` of `count` among `there`: each of them in turn, some twice, or evenly from the first to the last."""
    if count >= there:
        return at * there // count
    return round(at * (there - 1) / (count - 1)) if count > 1 else 0


def check_silent(old: Stack, new: Stack, sublayer_reasons: Sequence[str], where: str) -> None:
    """Refuse added layers that write nothing and still change the stream."""
    reasons = list(sublayer_reasons)
    if any(step.shapes_residual for block in new.variants.values() for step in block.steps):
        reasons.append("a norm, factor or gain of the stream itself")
    if new.streams is not None:
        reasons.append("several streams that each layer mixes")
    if reasons:
        raise SurgeryError(
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

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[Made]:
        return [
            Made(torch.zeros_like(made.value), "new")
            if silent
            else Made(made.value, "copied" if made.fate == "kept" else made.fate, made.error)
            for made, silent in zip(self.inner(given, fresh), self.silent, strict=True)
        ]
