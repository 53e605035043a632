"""Stored tables that follow from a formula: those of a file are compared with the formula, and never read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.describe import nested
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.model import Architecture
from anyformer.parts import Rotary

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.huggingface.files import Stored

TOLERANCE = 2e-3
"""Largest difference that the type in which a table was computed can explain."""


@dataclass(frozen=True)
class FixedTable:
    """A table that follows from the architecture."""

    values: Callable[[Architecture, Tensor], Iterator[Tensor]]
    """(architecture, stored table) -> the tables that it may equal, of its length."""
    relative: bool = False
    """Whether differences are taken relative to the value, as for frequencies."""

    def gap(self, architecture: Architecture, table: Tensor) -> float:
        """The largest difference from the nearest of the tables that it may equal; 0 where no computation uses it."""
        gaps = [self._between(table.double(), other.double()) for other in self.values(architecture, table)]
        return min(gaps, default=0.0)

    def _between(self, table: Tensor, other: Tensor) -> float:
        if table.numel() != other.numel():
            return float("inf")
        difference = (table - other.reshape(table.shape)).abs()
        return float((difference / other.reshape(table.shape).abs() if self.relative else difference).max())


def sinusoids(side: str) -> FixedTable:
    """The sinusoidal positions of a stack; the row of padding, the one before the first position, may be zeros."""

    def values(architecture: Architecture, table: Tensor) -> Iterator[Tensor]:
        import torch

        position = architecture.stacks[side].position
        if position is not None:
            first = position.plain().get("offset", 0)
            waves = position.vectors(torch.arange(len(table)) - first, architecture.width)
            assert waves is not None, "the positions of a family with such a table follow from a formula"
            yield waves
            yield torch.where((torch.arange(len(table)) == first - 1)[:, None], 0, waves)

    return FixedTable(values)


def _frequencies(architecture: Architecture, table: Tensor) -> Iterator[Tensor]:
    """theta^(-2i / n) of each of the architecture's rotary positions, without scaling and with it."""
    import torch

    n = 2 * table.numel()
    for rotary in _rotaries(architecture):
        base = rotary.theta ** (-torch.arange(0, n, 2) / n)
        yield base
        if rotary.scaling is not None:
            yield rotary.scaling.frequencies(base, rotary.theta, torch.tensor(1))


def _waves(architecture: Architecture, table: Tensor) -> Iterator[Tensor]:
    """[sin; cos] of every position times every frequency."""
    import torch

    for frequencies in _frequencies(architecture, table[0, ::2]):
        angles = torch.arange(len(table))[:, None] * frequencies
        yield torch.cat([angles.sin(), angles.cos()], -1)


def _rotaries(architecture: Architecture) -> Iterator[Rotary]:
    for stack in architecture.stacks.values():
        for block in stack.variants.values():
            yield from (value for sublayer in block.sublayers for value in nested(sublayer) if isinstance(value, Rotary))


ROTARY_WAVES = FixedTable(_waves)
"""Sines and cosines of rotary positions, for the rotated features of a head (GPT-J, RoFormer)."""
EVERYWHERE: Mapping[str, FixedTable] = {r".*\binv_freq": FixedTable(_frequencies, relative=True)}
"""Pattern of names, in every family -> the formula."""


def check_fixed_tables(stored: Stored, architecture: Architecture, fixed: Mapping[str, FixedTable]) -> set[str]:
    """The names of stored tables that follow from a formula; refuses one that differs from it."""
    import torch

    formulas = {name: formula for pattern, formula in fixed.items() for name in stored.files if re.fullmatch(pattern, name)}
    for name, formula in formulas.items():
        table = stored.tensor(name)
        gap = formula.gap(architecture, table)
        if gap > TOLERANCE + 2 * torch.finfo(table.dtype).eps:
            raise HuggingFaceError(
                f"{stored.directory}: {name} is computed here by its formula, and the stored one differs from it by up to "
                f"{gap:.2g}{' of a value' if formula.relative else ''}: with another table the model computes something else"
            )
    return set(formulas)
