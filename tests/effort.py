"""How much work something is, told without a clock, and how much a property is given.

A busy machine is slower, and calls no function more.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

from hypothesis import settings

PROFILES = {"half": 50, "all": 100}
"""Examples of a property in `make test`, and in `make test-slow` and wherever slow tests are asked for."""

slow_too = True
"""Whether slow tests are asked for, which `conftest.py` says: where they are not, cases that would be left out are not made."""


def calls(work: Callable[[], object]) -> int:
    """Functions that `work` calls; a second is some millions of them."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls


def examples(count: int) -> settings:
    """Under `@examples(60)` a property has 60 examples in `make test-slow`, and half as many in `make test`."""
    return settings(max_examples=share(count))


def share(count: int) -> int:
    """Of so many cases those that are asked now: all in `make test-slow`, half in `make test`."""
    return count * settings.default.max_examples // PROFILES["all"]
