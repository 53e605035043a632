"""Keeps freed memory in the process on Linux: a training step frees and asks again for the same large buffers, and giving
them back to the system each time costs a page fault per 4 KiB (measured: a seventh of a small model's step)."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Ask glibc's malloc to serve large blocks from its heap and never to trim it; False where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_MMAP_THRESHOLD, 2**31 - 1), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**28))
    taken = [mallopt(name, value) for name, value in settings]
    return taken == [1, 1, 1]
