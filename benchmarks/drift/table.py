"""The table of what was found, compact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.drift.sweep import Tried

RESULT = Path(__file__).parents[1] / "results" / "drift.json"


def write(tried: Mapping[tuple[str, str, str], Tried]) -> None:
    RESULT.with_suffix(".tmp")
