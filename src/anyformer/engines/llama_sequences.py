"""Texts that come and go in one context of llama.cpp: a pass holds a token of every text that goes on.

The rows of a context have a cache each, and llama.cpp computes rows in one pass only where their numbers follow one another
(`split_equal`, sequential). A free row between two texts would cost a pass of its own, so it is computed along, and forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from torch import Tensor

from anyformer.engines.llama_library import LlamaContext, LlamaFile

GAP = 2
"""Free rows that are computed along at most: beyond, on few cores, their products take longer than a pass of its own would."""


class LlamaSequences:
    """`engines.sequences.TextSequences` in a context of its own. The file is given up with it."""

    def __init__(self, file: LlamaFile, rows: int, length: int) -> None:
        self._file, self._context = file, file.own_context(rows, length)

    @property
    def length(self) -> int:
        return self._context.length

    def read(self, row: int, tokens: Sequence[int], last: int) -> Tensor:
        return self._context.read([row], [tokens], [last])[0]

    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        rows = with_gaps(sorted(tokens), self._context)
        logits_BV = self._context.advance(rows, [tokens.get(row, 0) for row in rows])
        for row in rows:
            if row not in tokens:
                self._context.forget(row)
        return {row: logits_BV[place, None] for place, row in enumerate(rows) if row in tokens}

    def forget(self, row: int) -> None:
        self._context.forget(row)

    def __del__(self) -> None:
        with suppress(Exception):  # the library may be gone before us when the process ends
            self._context.close()
            self._file.close()


def with_gaps(rows: Sequence[int], context: LlamaContext) -> list[int]:
    """The rows in order, and the free ones of every gap of at most `GAP`."""
    found = list(rows[:1])
    for row in rows[1:]:
        between = range(found[-1] + 1, row)
        if len(between) <= GAP and not any(context.lengths[each] for each in between):
            found += between
        found.append(row)
    return found
