"""How the threads of a computation wait for one another, which is decided before torch is loaded."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Variables by which a user says it."""
BUSY = 0.25
"""Processes that run beside this one, for each core, from which the machine counts as busy."""


def yield_when_busy(environment: MutableMapping[str, str], load: float, cores: int) -> None:
    """Let threads of a busy machine sleep while they wait: torch's spin, and hold the core that the awaited thread needs, so
    that an update of two threads beside one other process takes ten times as long. Results are the same."""
    if load >= BUSY * cores and not any(name in environment for name in WAITING):
        environment["OMP_WAIT_POLICY"] = "passive"


def load_of_machine() -> float:
    """Processes that wanted a core in the last minute, on average; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
