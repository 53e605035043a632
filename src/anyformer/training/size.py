"""Smaller forms of a run, as values, and what is left of them where some of their values are set by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anyformer.describe import Count, Value, parse_assignment
from anyformer.describe.path import Key, resolve

OF_ONE_PIECE = ("architecture", "data")
"""Parts of a run whose values fit one another: with one of them set by hand, a smaller form is another run."""


class Smaller(Value):
    """The run in a smaller size, for a machine on which the minutes hold too few tokens of the larger one before it."""

    below: Count
    """Taken where the minutes, at the measured rate, hold fewer tokens than this of the size before it."""
    set: tuple[str, ...]
    """Changes by path, written as on the command line: `set = ["architecture.width=128"]`."""

    @property
    def changes(self) -> dict[str, Any]:
        """Values by path."""
        return dict(map(parse_assignment, self.set))


def beside(sizes: Sequence[Smaller], run: Value, paths: Iterable[str]) -> tuple[Smaller, ...]:
    """What is left of a run's smaller `sizes` once the values at `paths` are set by hand, which come first: none where one of
    the sizes and a value set by hand disagree about what is of one piece."""
    asked = [resolve(run, path) for path in paths]

    def free(text: str) -> bool:
        path, _ = parse_assignment(text)
        return not any(_overlap(resolve(run, path), keys) for keys in asked)

    kept = [size.but(set=tuple(filter(free, size.set))) for size in sizes]
    lost = {text for size, left in zip(sizes, kept, strict=True) for text in size.set if text not in left.set}
    torn = any(resolve(run, parse_assignment(text)[0])[0] in OF_ONE_PIECE for text in lost)
    return () if torn else tuple(kept)


def _overlap(left: Sequence[Key], right: Sequence[Key]) -> bool:
    """Whether one path is the other, or leads to it."""
    shorter = min(len(left), len(right))
    return left[:shorter] == right[:shorter]
