"""Results that a step only converts: the operation that computes one puts it down converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import torch

from anyformer.generation.native.table import KINDS, OPERATIONS, Location, Region, Word

ELEMENTWISE, COPY = OPERATIONS.index("elementwise"), 0
"""The operation that converts, and its function."""
FLOAT32, SIZE = KINDS[torch.float32], torch.float32.itemsize


def converted_at_once(operations: Sequence[list[Word]]) -> list[list[Word]]:
    """The same operations without copies of results in fp32 that nothing else reads: these are put down as copied."""
    uses = Counter(memory for operation in operations for memory in _memories(operation))
    found = list[list[Word]]()
    for operation in operations:
        together = _together(found[-1], operation, uses) if found else None
        if together is None:
            found.append(operation)
        else:
            found[-1] = together
    return found


def _memories(operation: Sequence[Word]) -> set[Region]:
    return {word.memory for word in operation if isinstance(word, Location)}


def _together(before: Sequence[Word], copy: Sequence[Word], uses: Counter[Region]) -> list[Word] | None:
    """The operation before with the copy's result in the place of its own; None where both must stay."""
    place = _result(before)
    if place is None or list(copy[:3]) != [ELEMENTWISE, COPY, 0]:
        return None
    begin, count = place
    end = begin + 2 + count
    made, kind, strides = _tensor(before, begin, count)
    sizes = cast("int", copy[3])
    to, to_kind, to_strides = _tensor(copy, 5 + sizes, sizes)
    source, source_kind, source_strides = _tensor(copy, 5 + sizes + 2 + sizes, sizes)
    if made.memory.base is not None or uses[made.memory] != 2 or source != made or (kind, source_kind) != (FLOAT32, FLOAT32):
        return None
    if to.memory in _memories(before[:begin]) | _memories(before[end:]):
        return None  # it would be written to while it is read
    if before[0] == ELEMENTWISE and before[3] == sizes and before[5:begin] == copy[5 : 5 + sizes] and strides == source_strides:
        return [*before[:begin], to, to_kind, *to_strides, *before[end:]]
    if sizes == 1 and source_strides == [SIZE] and made.offset == 0 and made.memory.size == cast("int", copy[5]) * SIZE:
        # The memory from end to end, so that every number of it has one place in the copy, whatever the sizes are.
        return [*before[:begin], to, to_kind, *(stride // SIZE * to_strides[0] for stride in strides), *before[end:]]
    return None


def _result(operation: Sequence[Word]) -> tuple[int, int] | None:
    """Where the result of an operation stands among its words, and how many strides it has; None where it has to stay."""
    match OPERATIONS[cast("int", operation[0])]:
        case "elementwise" if operation[2] == 0:
            sizes = cast("int", operation[3])
            return 5 + sizes, sizes
        case "rows":
            sizes = cast("int", operation[5])
            return 6 + sizes, sizes
        case "matrix product":
            return 8, 3
        case "attention":
            return 10, 4
    return None


def _tensor(operation: Sequence[Word], begin: int, count: int) -> tuple[Location, int, list[int]]:
    place, kind, *strides = operation[begin : begin + 2 + count]
    return cast("Location", place), cast("int", kind), cast("list[int]", strides)
