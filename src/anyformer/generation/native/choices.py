"""Products of the same rows with matrices that they choose from several sets, such as gates and values of experts, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from anyformer.generation.native.table import OPERATIONS, Word

CHOSEN = OPERATIONS.index("chosen product")
TIMES, GIVEN, MATRICES = 11, 12, 19
"""Where the number of sets stands among the words, the choice and the rows behind it, and what each set has of its own."""


def chosen_together(operations: Sequence[list[Word]]) -> list[list[Word]]:
    """The same operations, where products that follow one another and read the same are one, for which threads meet once."""
    found = list[list[Word]]()
    for operation in operations:
        if found and _alike(found[-1], operation):
            before = found.pop()
            times = cast("int", before[TIMES]) + cast("int", operation[TIMES])
            found.append([*before[:TIMES], times, *before[GIVEN:], *operation[MATRICES:]])
        else:
            found.append(operation)
    return found


def _alike(before: Sequence[Word], after: Sequence[Word]) -> bool:
    read_alike = before[:TIMES] == after[:TIMES] and before[GIVEN:MATRICES] == after[GIVEN:MATRICES]
    return before[0] == CHOSEN and read_alike
