"""Pairs counted as series are those counted one by one, for every mask, at any length."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.parts import (
    Bidirectional,
    BlockWindow,
    Causal,
    Chunk,
    Fixed,
    GlobalTokens,
    Prefix,
    Strided,
    VerticalStride,
    Window,
)
from anyformer.parts.masks import pairs
from anyformer.parts.masks.pairs import TooLongError, count_pairs
from anyformer.pictures import masks_of
from anyformer.tally import Shape

LONG = 10**15


def some_mask(draw: random.Random):
    """Sizes below, among and beyond the lengths of these tests."""

    def one():
        size = draw.choice([draw.randint(1, 7), draw.randint(30, 80)])
        return draw.choice([
            Causal(), Bidirectional(), Prefix(), Window(size=size, after=draw.randint(0, 30)), Chunk(size=size),
            Strided(stride=size + 1), Fixed(size=size + 3, summary=draw.randint(1, 3)), GlobalTokens(count=size),
            BlockWindow(block=size, count=draw.randint(1, 3)),
            VerticalStride(block=draw.choice([1, 2, 20]), stride=draw.randint(2, 4)),
        ])  # fmt: skip

    mask = one()
    for _ in range(draw.randint(0, 3)):
        mask = mask & one() if draw.random() < 0.5 else mask | one()
    return mask


@pytest.mark.parametrize("seed", range(60))
def test_series_count_what_the_predicate_allows(seed, monkeypatch):
    monkeypatch.setattr(pairs, "AT_ONCE", 8)
    draw = random.Random(seed)
    mask, past, length, prefix = some_mask(draw), draw.choice([0, 33]), draw.randint(1, 150), draw.randint(0, 60)
    query, key = torch.arange(past, past + length)[:, None], torch.arange(past + length)[None]
    allowed = np.broadcast_to(mask.allowed(query, key, prefix).numpy(), (length, past + length))
    assert count_pairs(mask, past, past + length, prefix) == allowed.sum()


MEDIUM = {
    "chunk": Causal() & Chunk(size=8192),
    "window or prefix": Window(size=4096) | Prefix(),
    "phi-3-small": Causal() & (BlockWindow(block=64, count=16) | VerticalStride(block=64, stride=8)),
    "sparse": Window(size=128) | Causal() & Strided(stride=128),
    "dilated": Window(size=96) & Strided(stride=7) & Causal(),
}


@pytest.mark.parametrize("name", MEDIUM)
def test_series_count_as_one_by_one_at_medium_lengths(name):
    mask, keys = MEDIUM[name], 50_000
    assert keys > 2 * mask.period(keys)
    assert count_pairs(mask, 77, keys, 500) == mask.ranges(np.arange(77, keys), keys, 500).pairs


def test_formulas_at_a_length_of_a_quadrillion():
    n = LONG
    assert Causal().pairs(Shape(length=n)) == n * (n + 1) // 2
    assert Bidirectional().pairs(Shape(length=n)) == n * n
    assert Window(size=512).pairs(Shape(length=n)) == 512 * n - 512 * 511 // 2
    whole, rest = divmod(n, 8192)
    assert (Causal() & Chunk(size=8192)).pairs(Shape(length=n)) == whole * 8192 * 8193 // 2 + rest * (rest + 1) // 2
    assert Window(size=512).pairs(Shape(length=1, past=n)) == 512
    assert Window(size=10 * n).pairs(Shape(length=n)) == n * (n + 1) // 2
    assert Chunk(size=2 * n).pairs(Shape(length=n)) == n * n


def test_every_mask_of_the_catalogue_is_counted_at_any_length():
    known = {mask.digest: mask for name in ("llama-4-scout", "phi-3-small", "gpt3-small", "gemma-3-1b", "modernbert-base")
             for mask in masks_of(architecture(name))}  # fmt: skip
    assert len(known) > 4
    for mask in known.values():
        assert 0 < mask.pairs(Shape(length=LONG)) <= LONG * LONG


def test_a_period_beyond_counting_is_refused():
    with pytest.raises(TooLongError, match="repeats itself after"):
        (Chunk(size=10_000_019) & Strided(stride=9_999_991)).pairs(Shape(length=LONG))


def test_disjoint_progressions_are_counted_without_all_their_combinations():
    mask = Fixed(size=64, summary=30) & VerticalStride(block=20, stride=3)
    n = 2_000
    query, key = torch.arange(n)[:, None], torch.arange(n)[None]
    assert mask.pairs(Shape(length=n)) == np.broadcast_to(mask.allowed(query, key, 0).numpy(), (n, n)).sum()
