from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data.order import hashed, hashed_below, permuted
from effort import examples


@examples(80)
@given(size=st.integers(1, 700), seed=st.integers(-5, 2**64), epoch=st.integers(0, 10**6))
def test_a_permutation_is_one(size: int, seed: int, epoch: int) -> None:
    image = permuted(np.arange(size), size, seed, epoch)
    assert sorted(image.tolist()) == list(range(size))
    single = [int(permuted(np.array([place]), size, seed, epoch)[0]) for place in range(0, size, 97)]
    assert single == image[::97].tolist()


@pytest.mark.parametrize("size", [2**20, 2**20 + 1, 1_000_003])
def test_a_large_permutation_is_one_and_mixes(size: int) -> None:
    image = permuted(np.arange(size), size, 1, 2)
    assert np.array_equal(np.sort(image), np.arange(size))
    assert abs(np.corrcoef(np.arange(size), image)[0, 1]) < 0.01
    assert abs(np.corrcoef(image[1:], image[:-1])[0, 1]) < 0.01
    assert (np.diff(image) == 1).mean() < 1e-4


def test_no_places_have_no_images_and_one_outside_is_refused() -> None:
    assert permuted(np.zeros(0, dtype=np.int64), 5, 1).tolist() == []
    for place in (-1, 5):
        with pytest.raises(AssertionError, match="a place outside the range"):
            permuted(np.array([0, place]), 5, 1)


def test_keys_change_the_order() -> None:
    orders = {tuple(permuted(np.arange(50), 50, seed, epoch).tolist()) for seed in range(20) for epoch in range(20)}
    assert len(orders) == 400
    assert {int(permuted(np.array([0]), 6, seed)[0]) for seed in range(200)} == set(range(6))


def test_hashes_are_uniform_and_fixed() -> None:
    bits = hashed(np.arange(100_000), 7)
    assert abs((bits >> np.uint64(63)).mean() - 0.5) < 0.01
    assert abs((bits & np.uint64(1)).mean() - 0.5) < 0.01
    assert len(np.unique(bits)) == 100_000
    assert hashed(np.array([0])).tolist() == [0xE220A8397B1DCDAF], "splitmix64's first number for seed 0"
    # The order of data is part of what a run means: these numbers may not change.
    assert hashed(np.array([0, 1]), 3, 5).tolist() == [11639016369181813195, 1726431767106774374]
    assert permuted(np.arange(8), 8, 3, 5).tolist() == [2, 3, 6, 0, 5, 4, 7, 1]
    assert hashed_below(1000, 3, 5) == 195
