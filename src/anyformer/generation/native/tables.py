"""What is known of a step as tables, by the number of visible slots."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from anyformer.generation.native.step_memory import StepMemory
from anyformer.generation.native.table import Table

ROOM = 4
"""Memory is planned for so many visible slots and a fourth of them more."""


@dataclass
class Tables:
    """Tables of a step whose states have one shape, by visible slots. `unknown`: why there is none, if so; `used`: how often
    one was taken."""

    each: dict[int, Table] = field(default_factory=dict)
    unknown: str = ""
    used: int = 0
    strides: tuple[tuple[int, ...], ...] = ()
    """Of what the steps read and did not make."""
    roomy: Table | None = None
    """The one whose memory has room for what all that were made need."""

    def at(self, visible: int, *, spans: bool) -> Table | None:
        """The table for so many visible slots; None where it has to be made.

        `spans`: steps differ in that number alone, as a size or as the end of a view. Then two tables tell all others, since
        every word is a straight line of that number, which a third table has to confirm.
        """
        if visible in self.each or not spans or len(self.each) < 3:
            return self.each.get(visible)
        made, _ = self._line(visible)
        return made

    def add(self, visible: int, table: Table, *, spans: bool) -> Table:
        """One more, with the bases of those that name the same tensors; the third shows whether lines hold."""
        first = next(iter(self.each.values()), table)
        table = replace(table, bases=first.bases) if _same_bases(first, table) else table
        self.each[visible] = table
        if spans and len(self.each) == 3:
            made, expected = self._line(max(self.each))
            if made is None or not torch.equal(made.words, expected.words) or made.sizes != expected.sizes:
                self.unknown = "a step whose table is no straight line of the number of visible slots"
        return table

    def _line(self, visible: int) -> tuple[Table | None, Table]:
        """The table on the line through the first two, and the last one."""
        first, second, *_, (_, last) = sorted(self.each.items())
        made = line(first, second, visible)
        if made is None:
            return None, last
        if self.roomy is None or not _fits(made, self.roomy):
            # To plan takes as long as a step, and room for more slots serves later steps too.
            more = line(first, second, visible + visible // ROOM)
            assert more is not None, "the same line as above"
            sizes = tuple(map(max, made.sizes, more.sizes))
            self.roomy = replace(made, sizes=sizes, memory=StepMemory.of(made.starts, made.owned, sizes))
        return replace(made, memory=self.roomy.memory), last


def _fits(one: Table, other: Table) -> bool:
    """Whether each memory of one fits into the place of the same one of another."""
    return one.owned == other.owned and all(size <= most for size, most in zip(one.sizes, other.sizes, strict=True))


def line(few: tuple[int, Table], many: tuple[int, Table], visible: int) -> Table | None:
    """The table on the line through two, with the memory of the first; None where there is none."""
    (a, one), (b, other) = few, many
    if one.starts != other.starts or one.owned != other.owned or not _same_bases(one, other):
        return None
    rise = other.words - one.words
    if bool((rise % (b - a)).any()):
        return None
    words = one.words + rise // (b - a) * (visible - a)
    sizes = tuple(x + (y - x) * (visible - a) // (b - a) for x, y in zip(one.sizes, other.sizes, strict=True))
    return replace(one, words=words, sizes=sizes)


def _same_bases(one: Table, other: Table) -> bool:
    """Whether words name the same tensors, and constants have the same numbers."""
    if one.bases is other.bases:
        return True
    if len(one.bases) != len(other.bases):
        return False
    for mine, its in zip(one.bases, other.bases, strict=True):
        if isinstance(mine, Tensor) and isinstance(its, Tensor):
            if mine is not its and (mine.is_mkldnn or mine.shape != its.shape or not torch.equal(mine, its)):
                return False
        elif isinstance(mine, Tensor) or isinstance(its, Tensor) or mine != its:
            return False
    return True
