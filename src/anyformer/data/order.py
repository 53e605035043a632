"""The order of samples: pure functions of (seed, epoch, index) in O(1) memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 6
_WORD = 2**64 - 1


def hashed(numbers: NDArray[Any], *keys: int) -> NDArray[np.uint64]:
    """64 pseudo-random bits per number, which depend on it and all keys (splitmix64's mixer, chained)."""
    state = np.asarray(numbers).astype(np.uint64)
    for key in keys:
        state = _mixed(state + _of_key(key & _WORD))
    return _mixed(state)


@lru_cache(maxsize=4096)
def _of_key(key: int) -> NDArray[np.uint64]:
    """`_mixed` of one number. The same seeds, epochs and turns come with every batch, and each takes numpy ten microseconds."""
    return _mixed(np.array([key], dtype=np.uint64))


def hashed_below(limit: int, *keys: int) -> int:
    """A number in 0..limit-1 that depends on all keys."""
    return int(hashed(np.zeros(1, dtype=np.uint64), *keys)[0]) % limit


def permuted(places: NDArray[Any], size: int, *keys: int) -> NDArray[np.int64]:
    """The images of `places` (all in 0..size-1) under the permutation of 0..size-1 that the keys choose.

    A Feistel cipher on the smallest even number of bits that covers `size`, walked along its cycle until it lands inside.
    """
    assert not len(places) or (np.min(places) >= 0 and np.max(places) < size), (
        "a place outside the range would never end its cycle inside"
    )
    if size == 1:
        return np.zeros(len(places), dtype=np.int64)
    half = max(3, ((size - 1).bit_length() + 1) // 2)
    result = np.asarray(places).astype(np.uint64)
    outside = np.ones(len(result), dtype=bool)
    while outside.any():
        result[outside] = _feistel(result[outside], half, keys)
        outside = result >= size
    return result.astype(np.int64)


def _feistel(numbers: NDArray[np.uint64], half: int, keys: tuple[int, ...]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = numbers >> bits, numbers & mask
    for turn in range(_ROUNDS):
        left, right = right, left ^ (hashed(right, *keys, turn) & mask)
    return (left << bits) | right


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + _STEP
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return state ^ (state >> _31)


_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
