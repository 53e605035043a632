"""Numbers that lie in a store: read by blocks, of which the latest are held in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyformer import stores

BLOCK = 2**16
"""Bytes that are asked for at a time, at least."""
HELD = 2**28
"""Bytes of all blocks that a process holds, at most, but for those of one question."""


class BlockCache:
    """The blocks of objects that were asked for last; those that are missing are fetched in one question per object."""

    def __init__(self, held: int = HELD) -> None:
        self._most = held // BLOCK
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def blocks(self, url: str, size: int, numbers: Sequence[int]) -> list[bytes]:
        """Blocks of an object of `size` bytes, by their numbers from 0."""
        with self._lock:
            missing = [number for number in dict.fromkeys(numbers) if (url, number) not in self._blocks]
            spans = [(number * BLOCK, min((number + 1) * BLOCK, size)) for number in missing]
            for number, content in zip(missing, stores.ranges(url, spans) if spans else (), strict=True):
                self._blocks[url, number] = content
            found = []
            for number in numbers:
                self._blocks.move_to_end((url, number))
                found.append(self._blocks[url, number])
            while len(self._blocks) > self._most:
                self._blocks.popitem(last=False)
            return found


_CACHE = BlockCache()
"""That of this process."""


class StoredNumbers:
    """`count` numbers in an object of a store; a slice is a copy. `StoreError` names the object if it cannot be read."""

    def __init__(self, url: str, count: int, dtype: np.dtype[Any], cache: BlockCache = _CACHE) -> None:
        self._url, self._count, self._dtype, self._cache = url, count, dtype, cache

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, run: slice) -> NDArray[Any]:
        start, stop, step = run.indices(self._count)
        assert step == 1, "numbers are read in runs"
        if stop <= start:
            return np.zeros(0, dtype=self._dtype)
        width = self._dtype.itemsize
        numbers = self._numbers(start, stop)
        content = b"".join(self._cache.blocks(self._url, self._count * width, numbers))
        begin = start * width - numbers[0] * BLOCK
        return np.frombuffer(content[begin : begin + (stop - start) * width], dtype=self._dtype)

    def fetch(self, runs: Iterable[tuple[int, int]]) -> None:
        """Fetch the blocks of several runs together, so that the slices that follow wait for nothing."""
        numbers = [number for start, stop in runs for number in self._numbers(start, min(stop, self._count))]
        self._cache.blocks(self._url, self._count * self._dtype.itemsize, numbers)

    def _numbers(self, start: int, stop: int) -> range:
        """The blocks that have the numbers `start` to `stop`, exclusive."""
        width = self._dtype.itemsize
        return range(start * width // BLOCK, -(-stop * width // BLOCK))
