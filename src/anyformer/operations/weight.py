"""One declared parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

Role = Literal["column", "row", "expert", "replicate"]
"""How tensor parallelism may cut a weight: `column` along outputs (dim 0), `row` along inputs (dim 1), `expert` along
experts (dim 0), `replicate` not at all."""

Fill = Literal["matrix", "residual", "embedding", "head", "ones", "zeros", "log_rate", "time_step"] | float
"""The initial value of a weight: a number, or a rule of the description; `residual` matrices write to the residual stream,
`log_rate` and `time_step` belong to a learned decay."""

AxisName = Literal["heads", "kv_heads", "features", "ffn", "experts", "vocab", "positions"]
"""What is counted along a factor of a dimension; `features`: of one head."""
Dimension = tuple[tuple[AxisName, int], ...]
"""The factors of a dimension with their sizes, outermost first: the rows of a key are (kv_heads, K), (features, E). Rows that
no factor counts stand in front; a dimension of the stream has no factors."""


@dataclass(frozen=True)
class Wider:
    """How many times a weight has the inputs, and the outputs, that it has at another width; 1 for those of a fixed number."""

    inputs: float = 1.0
    outputs: float = 1.0


@dataclass(frozen=True)
class Weight:
    """One declared parameter: its shape as stored, how it may be cut, how it starts."""

    shape: tuple[int, ...]
    role: Role
    fill: Fill
    chosen: int | None = None
    """The number of experts, or rows of a table, stacked along dim 0, that one token uses; None where it uses all."""
    copies: int = 1
    """The number of equal layers that have one each: such layers are priced once."""
    sensitive: bool = False
    """Whether it stays in 16 bits or more when others are quantised: a router's choice depends on small differences."""
    linear: bool = True
    """Whether a matrix is one linear map; not a table that is looked up, nor a filter per channel."""

    axes: tuple[Dimension, ...] = ()
    """The factors of each dimension, for changing its sizes; empty if the part does not tell."""
    writes: bool = False
    """Whether a branch adds nothing to the residual stream if this weight, and all others that write, are 0."""
    base: tuple[int, ...] | None = None
    """Its shape at the width at which its initial values and rate are those that are written (muP); None: at any."""
    share: float = 1.0
    """Factor of its rate in steps that are as large whatever its gradient, beside that of its shape (muP with the depth)."""
    branch: float = 1.0
    """Factor of the branch that it stands in, and so of its gradient, as a multiple of the base's."""
    learnt: bool = True
    """Whether gradients move it; a running statistic, a correction of a router or a table of choices has none."""
    transposes: str | None = None
    """The matrix beside it, by its name in the same part, as whose transpose it starts: the decoder of a dictionary."""

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
    def factors(self) -> Iterator[tuple[int, int, AxisName, int]]:
        """Every factor: its dimension, its place in it, what it counts, its size."""
        for dim, dimension in enumerate(self.axes):
            for place, (name, size) in enumerate(dimension):
                yield dim, place, name, size

    @property
    def wider(self) -> Wider:
        """Its inputs and outputs as multiples of the base's. A vector has one input, and so has a row of a table."""
        if self.base is None:
            return Wider()
        times = [own / base for own, base in zip(self.shape, self.base, strict=True)]
        if self.role == "expert" and len(times) > 2:
            times = times[1:]
        if self.fill == "embedding":
            return Wider(outputs=times[-1])
        return Wider(prod(times[1:]), times[0])

    @property
    def decays(self) -> bool:
        """Whether weight decay applies: to matrices, no gains, biases or rates; stacked experts have one dimension more."""
        return self.fill != "log_rate" and len(self.shape) >= (3 if self.role == "expert" else 2)

    @property
    def is_matrix(self) -> bool:
        """Whether it is one matrix, or one per expert."""
        return len(self.shape) == (3 if self.role == "expert" else 2)

    @property
    def of_tokens(self) -> bool:
        """Whether it is a matrix with a row per token of a vocabulary."""
        return self.is_matrix and bool(self.axes) and any(what == "vocab" for what, _ in self.axes[0])

    @property
    def quantisable(self) -> bool:
        """Whether formats below 16 bits can hold it: a matrix of a block, no table, head, router or vector."""
        return self.is_matrix and self.fill in ("matrix", "residual") and not self.sensitive

    @property
    def multiplied(self) -> bool:
        """Whether products are all that reads it, so that it may lie in the order of their kernel: a matrix of a block that is
        one linear map."""
        return self.quantisable and self.linear

    @property
    def of_vocabulary(self) -> bool:
        """Whether it has a row per token that may be both looked up and multiplied by: the table of a tied head is."""
        return self.of_tokens and self.linear
