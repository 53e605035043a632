"""How the threads of a computation wait for one another, which is decided before torch is loaded."""

from __future__ import annotations

from collections.abc import MutableMapping

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Variables by which a user says it."""
TURNS = 1_000
"""Turns that a thread waits awake: GNU's OpenMP takes 300,000, some milliseconds."""


def wait_briefly(environment: MutableMapping[str, str]) -> None:
    """Let threads fall asleep soon while they wait for one another. Awake for milliseconds, as they are by default, they hold
    the core that the awaited thread needs wherever another process works beside them; asleep at once, they are half as fast
    alone. Results are the same. `python -m
    benchmarks.threads` measures it."""
    if not any(name in environment for name in WAITING):
        environment["GOMP_SPINCOUNT"] = str(TURNS)
