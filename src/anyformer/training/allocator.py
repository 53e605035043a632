"""What becomes of freed memory on Linux.

One process keeps it: a training step frees and asks again for the same large buffers, and giving them back to the system each
time costs a page fault per 4 KiB (measured: a seventh of a small model's step). Several processes on one machine give it back:
layers that are gathered and freed in turn, by several threads, would leave each its holes (measured: 2.4 GB in a process where
1.2 GB are in use).
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h


LARGE = 2**17
"""Bytes of a block that goes back to the system as soon as it is freed: of most tensors, since an aligned block does not fit
into the hole that one of its size left (measured: 1.14 GB in a process with blocks of 1 MiB, 0.92 GB with these)."""

APART = 2**20
"""Bytes of a block that goes back as soon as it is freed where small ones are many and live long, as in a server."""


def keep_freed_memory() -> bool:
    """Ask glibc's malloc to serve large blocks from its heap and never to trim it; False where there is no glibc."""
    return _told((_MMAP_THRESHOLD, 2**31 - 1), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**28))


def return_freed_memory() -> bool:
    """Ask glibc's malloc to give large blocks back as soon as they are freed; False where there is no glibc."""
    return _told((_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, LARGE))


def keep_large_apart() -> bool:
    """Ask glibc's malloc to let large blocks not lie between small ones, which would hold their place: by default it raises the
    size from which they are apart to that of the largest that was freed, up to 32 MiB. False where there is no glibc."""
    return _told((_MMAP_THRESHOLD, APART))


def give_back() -> None:
    """Return free memory to the system, as far as glibc can, so that reusing it counts as growth."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return


def _told(*settings: tuple[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    taken = [mallopt(name, value) for name, value in settings]
    return all(answer == 1 for answer in taken)
