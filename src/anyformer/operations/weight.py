"""One declared parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

Role = Literal["column", "row", "expert", "replicate"]
"""How tensor parallelism may cut a weight: `column` along outputs (dim 0), `row` along inputs (dim 1), `expert` along
experts (dim 0), `replicate` not at all."""

Fill = Literal["matrix", "residual", "embedding", "head", "ones", "zeros", "log_rate", "time_step"] | float
"""The initial value of a weight: a number, or a rule of the description; `residual` matrices write to the residual stream,
`log_rate` and `time_step` belong to a learned decay."""


@dataclass(frozen=True)
class Weight:
    """One declared parameter: its shape as stored, how it may be cut, how it starts."""

    shape: tuple[int, ...]
    role: Role
    fill: Fill
    chosen: int | None = None
    """The number of experts, stacked along dim 0, that one token uses; None without experts."""
    copies: int = 1
    """The number of equal layers that have one each: such layers are priced once."""
    sensitive: bool = False
    """Whether it stays in 16 bits or more when others are quantised: a router's choice depends on small differences."""
    linear: bool = True
    """Whether a matrix is one linear map; not a table that is looked up, nor a filter for each channel."""

    def __mul__(self, copies: int) -> Weight:
        return self if copies == 1 else replace(self, copies=self.copies * copies)

    @property
    def count(self) -> int:
        return prod(self.shape) * self.copies

    @property
    def active(self) -> int:
        """The number of its parameters that one token uses."""
        return self.count if self.chosen is None else self.count // self.shape[0] * self.chosen

    @property
    def decays(self) -> bool:
        """Whether weight decay applies: to matrices, not to gains and biases; stacked experts have one dimension more."""
        return len(self.shape) >= (3 if self.role == "expert" else 2)

    @property
    def is_matrix(self) -> bool:
        """Whether it is one matrix, or one for each expert."""
        return len(self.shape) == (3 if self.role == "expert" else 2)

    @property
    def quantisable(self) -> bool:
        """Whether formats below 16 bits can hold it: a matrix of a block, no table, head, router or vector."""
        return self.is_matrix and self.fill in ("matrix", "residual") and not self.sensitive
