"""What became of every weight, for people and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from torch import Tensor

from anyformer.costs.difference import difference
from anyformer.operations import Address
from anyformer.transforming.matched import places
from anyformer.transforming.operation import Fate, MadeWeight, TransformStep
from anyformer.transforming.planned import Transformation


@dataclass(frozen=True)
class WeightFates:
    """Weights of one name in several layers that had one fate."""

    weight: str
    """Its place without layers: `decoder.attention.key.weight`."""
    layers: str
    """The layers of the new stack, or the old one of dropped weights: `0-5`; empty outside layers."""
    fate: Fate
    how: str
    """What was done; empty if the numbers are the same."""
    parameters: int
    """Numbers in them, in the new model, or in the old one of dropped weights."""
    error: float | None
    """The largest error, relative to the old numbers in the Frobenius norm; None without one."""


@dataclass(frozen=True)
class Changed:
    """A value of the description that differs."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Loss:
    """Held-out loss in nats per token, over `tokens` tokens."""

    before: float
    after: float
    tokens: int


@dataclass(frozen=True)
class TransformReport:
    """What a change of architecture did to the weights."""

    changes: tuple[Changed, ...]
    """Every value of the description that differs."""
    layers: Mapping[str, tuple[int, ...]]
    """For each stack whose depth or order changed, the old layer that each new one comes from."""
    lines: tuple[WeightFates, ...]
    logits_error: float | None = None
    """The largest difference of the logits on a few random tokens, over the largest old logit; None if they do not compare."""
    loss: Loss | None = None
    """On held-out text, where some was given."""

    def plain(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)

    def parameters(self, *fates: Fate) -> int:
        """The number of parameters that had one of these fates."""
        return sum(line.parameters for line in self.lines if line.fate in fates)


def reported(
    transformation: Transformation, made: Mapping[str, tuple[TransformStep, MadeWeight]], old: Mapping[str, Tensor]
) -> TransformReport:
    """The report of finished steps. `made`: each new weight by name; `old`: the tensors before."""
    ours, theirs = places(transformation.new), places(transformation.old)
    rows = [
        (
            _group(name, ours[name].address), ours[name].address.layer, each.fate, step.operation.words,
            each.value.numel(), each.error,
        )
        for name, (step, each) in made.items()
    ]  # fmt: skip
    rows += [
        (_group(name, theirs[name].address), theirs[name].address.layer, "dropped", "", old[name].numel(), None)
        for name in transformation.dropped
    ]
    changes = difference(transformation.old, transformation.new, length=_length(transformation)).details
    layers = {
        each.name: tuple(origin.layer for origin in each.origins)
        for each in transformation.stacks
        if [origin.layer for origin in each.origins] != list(range(each.old.depth))
    }
    return TransformReport(tuple(Changed(each.what, each.left, each.right) for each in changes), layers, tuple(_lines(rows)))


_Row = tuple[str, str | None, Fate, str, int, float | None]


def _lines(rows: Sequence[_Row]) -> Iterator[WeightFates]:
    groups: dict[tuple[str, Fate, str], list[_Row]] = {}
    for row in rows:
        groups.setdefault((row[0], row[2], row[3]), []).append(row)
    for (weight, fate, how), each in groups.items():
        errors = [row[5] for row in each if row[5] is not None]
        numbers = [int(row[1]) for row in each if row[1] is not None]
        yield WeightFates(weight, runs(numbers), fate, how, sum(row[4] for row in each), max(errors, default=None))


def runs(numbers: Sequence[int]) -> str:
    """0 1 2 5 -> `0-2 5`."""
    parts = []
    for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        parts.append(str(values[0]) if len(values) == 1 else f"{values[0]}-{values[-1]}")
    return " ".join(parts)


def _group(name: str, address: Address) -> str:
    """The place of a weight without its layer: `decoder.attention.key.weight`."""
    if address.layer is None:
        return name
    rest = name.removeprefix(f"{address.module}.layers.{address.layer}.").replace(".sublayer.", ".")
    return f"{address.module}.{rest}"


def _length(transformation: Transformation) -> int:
    """A length that both position tables cover."""
    stacks = (*transformation.old.stacks.values(), *transformation.new.stacks.values())
    return min((stack.max_length for stack in stacks if stack.max_length is not None), default=64)
