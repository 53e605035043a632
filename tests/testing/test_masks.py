"""The contracts of masks: those of the package keep them, and each has a wrong mask that it alone notices."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.testing.unloading import forgetting

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
from anyformer.parts.masks.ranges import Ranges
from anyformer.testing import masks

RIGHT = (
    Causal(), Window(size=4), Chunk(size=5), Strided(stride=4), Fixed(size=4, summary=1),
    Prefix(), Bidirectional(), BlockWindow(block=2, count=2),
    Causal() & GlobalTokens(count=2), VerticalStride(block=2, stride=3), Causal() & Window(size=3) | Chunk(size=4),
)  # fmt: skip


def broken(mask) -> list[str]:
    found = []
    for holds in masks.CONTRACTS:
        try:
            holds(mask)
        except AssertionError:
            found.append(holds.__name__)
    return found


@pytest.mark.parametrize("mask", RIGHT, ids=str)
def test_masks_keep_them(mask):
    assert broken(mask) == []


def test_each_is_noticed_to_be_broken_alone():
    with forgetting():

        class OneMore(Window):
            kind: Literal["one_more"] = "one_more"

            def ranges(self, query, keys, prefix=0):
                return Ranges.plain(query - self.size, query + 1, keys)

        class SaysLess(Window):
            kind: Literal["says_less"] = "says_less"

            @property
            def window(self):
                return self.size - 1

        class SaysNothing(Window):
            kind: Literal["says_nothing"] = "says_nothing"

            @property
            def window(self):
                return None

        found = [broken(each(size=4)) for each in (OneMore, SaysLess, SaysNothing)]
    assert found == [[each.__name__] for each in masks.CONTRACTS]
