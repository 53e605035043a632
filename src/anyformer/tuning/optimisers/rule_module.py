"""What an optimiser runs: the rule by which one weight and its state change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

State = dict[str, Tensor]
"""The state of one weight by name: tensors alone, so that a checkpoint holds all of it."""

COUNTERS = ("updates", "rates", "roundings")
"""Names of single numbers in a state, which stay on the CPU, where they are read."""


class Rule(ABC):
    """How one weight changes: a frozen dataclass, since weights with equal rules are one group."""

    elementwise: ClassVar[bool] = False
    """Whether each number changes by its own gradient and state alone, so that a process which holds a part of a weight can
    change it without the rest. Of any other rule, every process has the whole weight while it changes."""

    @abstractmethod
    def start(self, weight: Tensor) -> State:
        """The state before the first update."""

    @abstractmethod
    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        """One update of the weight and its state, in place."""

    def mean(self, weight: Tensor, state: State) -> Tensor:
        """The weight to evaluate with, of an optimiser that `averages`."""
        raise NotImplementedError

    def fused(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer | None:
        """An optimiser of torch that changes the weights of all groups at once, with the same state and to the same bits; None
        where there is none."""
        return None


def counter(number: float = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    """A single number of a state."""
    return torch.tensor(number, dtype=dtype)


def counted(state: State) -> int:
    """The number of this update, from 1."""
    state["updates"] += 1
    return int(state["updates"])
