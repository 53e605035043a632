"""Fills in the table of `docs/conform.md` from benchmarks/results/engines/conform.json.

python docs/make_conform.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from page_text import filled, table, write

DOCS = Path(__file__).parent
PAGE = DOCS / "conform.md"
RESULT = DOCS.parent / "benchmarks" / "results" / "engines" / "conform.json"
HEADS = ("engine", "right ways that pass", "largest difference", "mistakes named by their case", "processor")


def results() -> dict[str, Any]:
    """What was tried, engine by engine."""
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def pages() -> dict[Path, str]:
    """The page as of today."""
    return filled((PAGE,), {"tried": table(HEADS, map(line, results().values()))})


def line(told: Mapping[str, Any]) -> Iterator[str]:
    """An engine's cells."""
    right = [row for row in told["rows"] if row["case"] is None]
    wrong = [row for row in told["rows"] if row["case"] is not None]
    passing = [row for row in right if row["found"] is None]
    found = [row for row in wrong if row["found"] == row["case"]]
    yield told["rows"][0]["engine"]
    yield f"{len(passing)} of {len(right)}"
    yield f"{right[0]['largest']:.1e} (fp32)"
    yield f"{len(found)} of {len(wrong)}"
    yield told["processor"]


if __name__ == "__main__":
    write(pages())
