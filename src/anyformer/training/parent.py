"""A process that another one started for its own work, and that ends with it."""

from __future__ import annotations

import signal
import sys

_PR_SET_PDEATHSIG = 1
"""`prctl(2)`: the signal that comes when the parent ends, however it ends."""


def end_with_parent() -> None:
    """Let SIGTERM come when the process that started this one ends: training then saves what it has. On Linux; elsewhere it
    goes on, and ends at the next word with the others."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
