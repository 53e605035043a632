"""One declared parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

Role = Literal["column", "row", "expert", "replicate"]
"""How tensor parallelism may cut a weight: `column` along outputs (dim 0), `row` along inputs (dim 1), `expert` along
experts (dim 0), `replicate` not at all."""

Fill = Literal["matrix", "residual", "embedding", "head", "ones", "zeros", "log_rate", "time_step"] | float
"""How a weight starts: at a number, or by a rule of the description; `residual` matrices write to the residual stream,
`log_rate` and `time_step` are those of a learned decay."""


@dataclass(frozen=True)
class Weight:
    """One declared parameter: its shape as stored, how it may be cut, how it starts."""

    shape: tuple[int, ...]
    role: Role
    fill: Fill
    chosen: int | None = None
    """Of experts stacked along dim 0: how many one token uses."""
    copies: int = 1
    """How many layers have one each, where layers that are alike are priced once."""
    sensitive: bool = False
    """Whether it stays in 16 bits or more where other matrices are quantised: a router's choice hangs on small differences."""

    def __mul__(self, copies: int) -> Weight:
        return self if copies == 1 else replace(self, copies=self.copies * copies)

    @property
    def count(self) -> int:
        return prod(self.shape) * self.copies

    @property
    def active(self) -> int:
        """How many of its numbers one token uses."""
        return self.count if self.chosen is None else self.count // self.shape[0] * self.chosen

    @property
    def decays(self) -> bool:
        """Weight decay is for matrices only, never for gains and biases; stacked experts have one dimension more."""
        return len(self.shape) >= (3 if self.role == "expert" else 2)

    @property
    def quantisable(self) -> bool:
        """Whether formats below 16 bits hold it: matrices of blocks do, tables, heads, routers and vectors do not."""
        is_matrix = len(self.shape) == 2 or (self.role == "expert" and len(self.shape) == 3)
        return is_matrix and self.fill in ("matrix", "residual") and not self.sensitive
