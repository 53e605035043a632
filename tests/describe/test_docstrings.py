"""Docstrings of fields are read in several threads at once, as a server does."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from anyformer.describe.docstrings import _own
from anyformer.parts import Attention, FeedForward, Rotary, Stack

KINDS = (Attention, FeedForward, Rotary, Stack)


@pytest.fixture
def _often():
    """Threads that change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def read(deep: int) -> list[object]:
    """The docstrings, read so many calls deep: Python's parser looks whether its depth is as it was."""
    return read(deep - 1) if deep else [_own.__wrapped__(kind) for kind in KINDS]


@pytest.mark.usefixtures("_often")
def test_several_threads_read_docstrings():
    with ThreadPoolExecutor(6) as pool:
        first, *others = pool.map(read, range(0, 60, 10))
    assert all(first)
    assert all(other == first for other in others)
