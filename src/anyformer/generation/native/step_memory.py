"""Places for what a step computes and needs no longer than itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class StepMemory:
    """Where each of the step's own memories begins: what is added to the words at some positions; and the bytes of all."""

    positions: Tensor
    starts: Tensor
    size: int

    @staticmethod
    def of(operations: Sequence[int], owned: Sequence[tuple[int, int]], sizes: Sequence[int]) -> StepMemory:
        """Memories of one size take the places of others of it that are read no more. Arguments as in `Table`."""
        last = {memory: position for position, memory in owned}
        slots, free, starts, end = dict[int, int](), dict[int, list[int]](), list[int](), 0
        for _, operation in groupby(owned, lambda each: bisect_right(operations, each[0])):
            used = list(operation)
            for _, memory in used:
                if memory not in slots:
                    if not free.setdefault(sizes[memory], []):
                        free[sizes[memory]].append(end)
                        end += sizes[memory]
                    slots[memory] = free[sizes[memory]].pop()
            for memory in dict.fromkeys(memory for _, memory in used):
                if last[memory] <= used[-1][0]:
                    free[sizes[memory]].append(slots[memory])
            starts += [slots[memory] for _, memory in used]
        return StepMemory(_numbers([position for position, _ in owned]), _numbers(starts), end)


def _numbers(each: Sequence[int]) -> Tensor:
    return torch.tensor(each, dtype=torch.int64)
