"""Contracts of masks: what is counted, kept and refused by a mask's own words agrees with its predicate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from anyformer.operations import Shape
from anyformer.parts.masks.mask import Mask

CALLS = ((0, 40, 0), (0, 1, 0), (7, 23, 0), (0, 24, 5), (29, 1, 3))
"""Cached positions, positions of the call and of the prefix."""
LONG = 256
"""Positions after which a mask that forgets has forgotten: tiny ones are asked."""


def seen(mask: Mask, past: int, length: int, prefix: int) -> np.ndarray:
    """Whether each query of a call sees each key, (T, S), by the predicate."""
    query, key = torch.arange(past, past + length)[:, None], torch.arange(past + length)[None]
    return np.broadcast_to(mask.allowed(query, key, prefix).numpy(), (length, past + length))


def ranges_are_the_predicate(mask: Mask) -> None:
    """`ranges` has the keys that `allowed` allows, and the pairs that are priced are as many."""
    for past, length, prefix in CALLS:
        expected = seen(mask, past, length, prefix)
        found = mask.ranges(np.arange(past, past + length), past + length, prefix).dense(past + length)
        where = f"of {length} queries after {past} positions with a prefix of {prefix}"
        wrong = np.argwhere(found != expected)
        first = f"query {past + wrong[0][0]} and key {wrong[0][1]}" if len(wrong) else ""
        assert not first, f"{where}: `ranges` and `allowed` differ, first at {first}"
        pairs = mask.pairs(Shape(length=length, past=past, prefix=prefix))
        assert pairs == expected.sum(), f"{where}: {pairs} pairs are counted, and {expected.sum()} are allowed: see `repeats`"


def no_key_lies_beyond_what_it_says(mask: Mask) -> None:
    """No query sees a key outside its `window` or `chunk`, and a later one only if the mask `looks_ahead`."""
    query, key = np.nonzero(seen(mask, 0, 40, 0))
    if mask.window is not None:
        assert (query - key < mask.window).all(), f"window = {mask.window}, and a key {(query - key).max()} back is allowed"
    if mask.chunk is not None:
        assert (query // mask.chunk == key // mask.chunk).all(), f"chunk = {mask.chunk}, and a key of another one is allowed"
    if (key > query).any():
        assert mask.looks_ahead, "a later key is allowed: say so with `looks_ahead`"


def what_is_forgotten_is_said(mask: Mask) -> None:
    """A mask has a `window` or a `chunk` if no query sees a key from long before: else the cache keeps what nobody reads."""
    if mask.window is None and mask.chunk is None:
        query, key = np.nonzero(seen(mask, 0, LONG, 3))
        window = int((query - key).max(initial=0)) + 1
        assert window > LONG // 2, f"no key is seen {window} or more back: say window = {window}, or the cache keeps all keys"


CONTRACTS: tuple[Callable[[Mask], None], ...] = (
    ranges_are_the_predicate,
    no_key_lies_beyond_what_it_says,
    what_is_forgotten_is_said,
)
