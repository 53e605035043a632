"""`Kind`: one kind of malformed input. A group of kinds is a file of its own, and one name in `campaign.GROUPS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Case = Callable[[], Any]


@dataclass(frozen=True)
class Kind:
    """`make`: the case of a seed, drawn from nothing else; `cases`: how many a full campaign has; `few`: how many every test
    run has."""

    make: Callable[[int], Case]
    cases: int
    few: int
