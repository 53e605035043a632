from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from anyformer.data import interpolated_bigram_loss
from anyformer.text import DataError


def _naive(train: list[int], validation: list[int], vocab: int) -> float:
    """The same model in plain loops."""

    def model(pairs: list[tuple[int, int]]) -> object:
        both, first, second = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)

        def probabilities(a: int, b: int) -> list[float]:
            unigram = second[b] / len(pairs)
            return [both[a, b] / first[a] if first[a] else unigram, unigram, 1 / vocab]

        return probabilities

    pairs = list(itertools.pairwise(train))
    block = max(1, len(pairs) // 200)
    held_out = [pair for place, pair in enumerate(pairs) if place // block % 20 == 10]
    rest = model([pair for place, pair in enumerate(pairs) if place // block % 20 != 10])
    weights = [1 / 3] * 3
    for _ in range(100):
        sums = [0.0] * 3
        for pair in held_out:
            parts = [w * p for w, p in zip(weights, rest(*pair), strict=True)]  # type: ignore[operator]
            sums = [s + part / sum(parts) for s, part in zip(sums, parts, strict=True)]
        weights = [max(s / len(held_out), 1e-6) for s in sums]
        weights = [w / sum(weights) for w in weights]
    whole = model(pairs)
    asked = list(itertools.pairwise(validation))
    return -sum(math.log(sum(w * p for w, p in zip(weights, whole(*pair), strict=True))) for pair in asked) / len(asked)  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_loops(seed: int) -> None:
    generator = np.random.default_rng(seed)
    train, validation = (generator.zipf(1.4, size) % 30 for size in (700 + seed, 150))
    naive = _naive(train.tolist(), validation.tolist(), 37)
    assert interpolated_bigram_loss(train, validation, 37) == pytest.approx(naive, rel=1e-10)


def test_of_several_lines_no_pair_crosses_from_one_to_the_next() -> None:
    generator = np.random.default_rng(1)
    train, lines = generator.zipf(1.4, 700) % 30, generator.zipf(1.4, (5, 40)) % 30
    each = [interpolated_bigram_loss(train, line, 37) for line in lines]
    assert interpolated_bigram_loss(train, lines, 37) == pytest.approx(np.mean(each))


def test_knows_what_it_can_know() -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 64, 40_000)
    assert interpolated_bigram_loss(noise[:30_000], noise[30_000:], 64) == pytest.approx(math.log(64), rel=0.01)
    cycle = np.tile(np.arange(64), 500)
    assert interpolated_bigram_loss(cycle, cycle[:999], 64) < 0.01
    unseen = np.full(50, 63)
    assert np.isfinite(interpolated_bigram_loss(np.tile(np.arange(60), 50), unseen, 64))


def test_sums_to_one_over_the_next_token() -> None:
    train = np.random.default_rng(1).integers(0, 9, 300) % 7
    losses = [interpolated_bigram_loss(train, [context, token], 9) for context in (3, 8) for token in range(9)]
    assert np.exp(-np.array(losses)).reshape(2, 9).sum(axis=1) == pytest.approx([1, 1])


def test_wrong_tokens_are_refused() -> None:
    with pytest.raises(DataError, match="has token 70, vocab is 64"):
        interpolated_bigram_loss([70] * 50, [1, 2], 64)
    with pytest.raises(DataError, match="train split has 3 tokens"):
        interpolated_bigram_loss([1, 2, 3], [1, 2], 64)
