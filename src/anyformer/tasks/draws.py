"""Random numbers of sequences: pure functions of (keys, number of the sequence, what is drawn)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anyformer.data.order import hashed

Ints = NDArray[np.int64]
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Draws:
    """The random numbers of B sequences, each from its own 64 bits: no sequence depends on those beside it."""

    states: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: Ints, *keys: int) -> Self:
        """Those of the sequences with these numbers, under these keys."""
        return cls(hashed(rows, *keys))

    def __len__(self) -> int:
        return len(self.states)

    def those(self, chosen: NDArray[Any]) -> Self:
        """The draws of some of the sequences."""
        return type(self)(self.states[chosen])

    def bits(self, what: str, count: int) -> NDArray[np.uint64]:
        """(B, count): 64 random bits each; `what` names the quantity, so that two of them share none."""
        places = np.arange(count, dtype=np.uint64) * _STEP
        return hashed(self.states[:, None] + places, zlib.crc32(what.encode()))

    def below(self, what: str, limit: int, count: int) -> Ints:
        """(B, count): whole numbers in 0 ... limit - 1, all equally likely but for limit / 2^64."""
        return (self.bits(what, count) % np.uint64(limit)).astype(np.int64)

    def shuffled(self, what: str, size: int, count: int | None = None) -> Ints:
        """(B, count): different numbers in 0 ... size - 1, in random order; all of them by default."""
        return np.argsort(self.bits(what, size), axis=1, kind="stable")[:, :count]
