"""Masks: the two ways in which each speaks agree, for every combination."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyformer.operations import Shape
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
from anyformer.testing.masks import what_is_forgotten_is_said
from effort import calls

single = st.one_of(
    st.just(Causal()),
    st.just(Bidirectional()),
    st.just(Prefix()),
    st.builds(Window, size=st.integers(1, 9), after=st.integers(0, 4)),
    st.builds(Chunk, size=st.integers(1, 6)),
    st.builds(Strided, stride=st.integers(2, 6)),
    st.builds(Fixed, size=st.integers(4, 7), summary=st.integers(1, 3)),
    st.builds(GlobalTokens, count=st.integers(1, 4)),
    st.builds(BlockWindow, block=st.integers(1, 4), count=st.integers(1, 3)),
    st.builds(VerticalStride, block=st.integers(1, 3), stride=st.integers(2, 4)),
)
masks = st.recursive(
    single, lambda inner: st.builds(lambda a, b, both: a & b if both else a | b, inner, inner, st.booleans()), max_leaves=5
)


def dense(mask, past: int, length: int, prefix: int) -> np.ndarray:
    query, key = torch.arange(past, past + length)[:, None], torch.arange(past + length)[None]
    return np.broadcast_to(mask.allowed(query, key, prefix).numpy(), (length, past + length))


@given(single)
def test_what_is_forgotten_is_said(mask):
    what_is_forgotten_is_said(mask)


@given(masks, st.integers(0, 8), st.integers(1, 12), st.integers(0, 10))
def test_ranges_are_the_predicate(mask, past, length, prefix):
    ranges = mask.ranges(np.arange(past, past + length), past + length, prefix)
    assert np.array_equal(ranges.dense(past + length), dense(mask, past, length, prefix))
    shape = Shape(length=length, past=past, prefix=prefix)
    assert mask.pairs(shape) == dense(mask, past, length, prefix).sum()
    assert np.array_equal(mask.counts(shape), dense(mask, past, length, prefix).sum(1))


@given(masks, st.integers(1, 14))
def test_reach_bounds_what_a_query_sees(mask, length):
    if mask.window is not None:
        query, key = np.nonzero(dense(mask, 0, length, 0))
        assert (query - key < mask.window).all()


@given(masks, st.integers(2, 14))
def test_ahead_says_whether_later_keys_are_seen(mask, length):
    sees_later = np.triu(dense(mask, 0, length, 0), 1).any()
    assert mask.looks_ahead or not sees_later
    assert any(limit.contract == "causal" for limit in mask.limits) == mask.looks_ahead


def test_a_long_mask_is_counted_by_few_calls():
    mask, n = Causal() & Window(size=4096) | Prefix(), 131_072
    assert mask.pairs(Shape(length=n)) == 4096 * 4097 // 2 + (n - 4096) * 4096
    assert calls(lambda: mask.pairs(Shape(length=n))) < 2_000


def test_combinations_are_flat():
    assert len((Causal() & Window(size=2) & Window(size=3)).masks) == 3
    assert len((Causal() | (Prefix() | Bidirectional())).masks) == 3


@pytest.mark.parametrize("size", [0, -1])
def test_an_empty_window_is_refused(size):
    with pytest.raises(ValueError, match="size"):
        Window(size=size)


@given(masks, st.integers(2, 14))
def test_no_pair_leaves_its_chunk(mask, length):
    if mask.chunk is not None:
        query, key = np.nonzero(dense(mask, 0, length, 0))
        assert (query // mask.chunk == key // mask.chunk).all()
