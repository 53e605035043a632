"""Docstrings of fields are read in several threads at once, as a server does."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from anyformer.describe.docstrings import _own
from anyformer.parts import FeedForward, Rotary

KINDS = (FeedForward, Rotary)


@pytest.fixture
def _often():
    """The collector runs as often as it can, and gives way to other threads, in the middle of the parser too."""

    def give_way(*_: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(100)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


def read(deep: int) -> list[object]:
    """The docstrings, read so many calls deep: Python's parser looks whether its depth is as it was."""
    return read(deep - 1) if deep else [_own.__wrapped__(kind) for kind in KINDS]


@pytest.mark.usefixtures("_often")
def test_several_threads_read_docstrings():
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(read, range(0, 40, 10))
    assert all(first)
    assert all(other == first for other in others)
