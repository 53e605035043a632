"""Groups of weights by their paths, with rates and decays of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from anyformer.describe import NotNegative, Positive, UserError, Value
from anyformer.describe.nearest import nearest
from anyformer.operations import Weight


class WeightGroup(Value):
    """Weights whose rate and decay differ from the optimiser's, by factors of these."""

    paths: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Patterns of paths of weights, as `embedding.*`, `*.query` or `decoder.layers.1?.*`."""
    rate_factor: Positive = 1.0
    """Their rate is this times the optimiser's, at every step."""
    decay_factor: NotNegative | None = None
    """Their decay is this times the optimiser's; absent: 1 for matrices, 0 for gains and biases."""


def groups_of(groups: Iterable[WeightGroup], weights: Mapping[str, Weight]) -> dict[str, WeightGroup]:
    """The group of each weight that one names, the first that does. Raises `UserError` for a pattern without a weight."""
    found: dict[str, WeightGroup] = {}
    for number, group in enumerate(groups):
        for pattern in group.paths:
            named = [path for path in weights if _names(pattern, path)]
            if not named:
                raise UserError(f"optimiser.groups.{number}.paths: {pattern!r} names no weight; {_hint(pattern, weights)}")
            free = [path for path in named if found.get(path, group) is group]
            if not free:
                raise UserError(
                    f"optimiser.groups.{number}.paths: all that {pattern!r} names is in an earlier group, as {named[0]!r}; "
                    "the first group that names a weight counts: put this one before"
                )
            found.update(dict.fromkeys(free, group))
    return found


def _names(pattern: str, path: str) -> bool:
    """Whether a pattern names a weight, with or without its last word."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.removesuffix(".weight"), pattern)


def _hint(pattern: str, weights: Iterable[str]) -> str:
    """The nearest pattern of one word, or a path."""
    paths = list(weights)
    ends = {f"*.{path.removesuffix('.weight').rpartition('.')[2]}" for path in paths}
    near = nearest(pattern, sorted({f"{path.split('.')[0]}.*" for path in paths} | ends))
    return f"did you mean {near[0]!r}?" if near else f"a path is {paths[0]!r}"
