"""How much work something is, told without a clock: a busy machine is slower, and calls no function more."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """Functions that `work` calls; a second is some millions of them."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls
