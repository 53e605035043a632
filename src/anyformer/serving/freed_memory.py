"""Memory that was freed goes back to the system, where the C library would keep as much as the largest moment took."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LARGE = 2**20
"""Bytes from which a piece of memory is the system's own, and back there as soon as it is freed."""
_MMAP_THRESHOLD = -3
"""Of `mallopt`, malloc.h."""


def keep_large_apart() -> None:
    """Let large pieces not lie between small ones, which would hold their place; without GNU's C library nothing happens.

    By default it raises the size from which they are apart to that of the largest that was freed, up to 32 MiB.
    """
    if (library := _library()) is not None:
        library.mallopt(_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """Give whole pages without contents back, of all threads."""
    if (library := _library()) is not None:
        library.malloc_trim(0)


@cache
def _library() -> Any:
    """GNU's C library, of which alone these are functions; else None."""
    try:
        library = ctypes.CDLL(None)
        _ = library.malloc_trim, library.mallopt
    except (OSError, TypeError, AttributeError):  # as on Windows, and with other C libraries
        return None
    return library
