"""Weights in large pages of memory: a step that reads them at the memory's rate waits for every small page's address too."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import Tensor

LARGE = 2 * 2**20
"""Bytes of a large page of x86, and of ARM where small ones have 4 KB; smaller tensors stay where they are."""
COLLAPSE = 25
"""Linux's MADV_COLLAPSE, since 6.1: the pages of a range become large ones, in place."""
SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def collapse_soon(tensors: Iterable[Tensor]) -> Thread | None:
    """Let the pages of large tensors become large ones, beside what goes on: it takes about 3 seconds for a gigabyte.

    No address and no number changes. None where the system has no such pages or the user has switched them off.
    """
    if not SWITCH.exists() or "[never]" in SWITCH.read_text():
        return None
    spans = [span for span in map(_span, tensors) if span[1] >= LARGE // 2]
    thread = Thread(target=lambda: [_collapse(*span) for span in spans], name="large pages", daemon=True)
    thread.start()
    return thread


def _span(tensor: Tensor) -> tuple[int, int]:
    """Where a tensor's numbers lie, and how many bytes they are."""
    if tensor.is_mkldnn:
        return torch.ops.mkldnn.data_ptr(tensor), torch.ops.mkldnn._nbytes(tensor)
    return tensor.data_ptr(), tensor.nbytes


def _collapse(address: int, count: int) -> bool:
    """Ask for all large pages that the bytes touch, or else for those that they fill. A system that refuses changes nothing."""
    outer = address // LARGE * LARGE, -(-(address + count) // LARGE) * LARGE
    inner = -(-address // LARGE) * LARGE, (address + count) // LARGE * LARGE
    return any(end > start and _advise()(start, end - start, COLLAPSE) == 0 for start, end in (outer, inner))


@cache
def _advise() -> Any:
    """The C library's madvise."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise
