"""Fills in the table of docs/sparse.md from benchmarks/results/sparse.json: `python docs/make_sparse.py`.

A test holds the page to its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from page_text import filled, table, write

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "sparse.md",)
RESULT = ROOT / "benchmarks" / "results" / "sparse.json"
FIGURES = {"explained_variance": 4, "loss_recovered": 4, "l0": 1, "dead": 3}
"""Figures of the table, with their decimal places."""
TITLES = {"batch_top_k_free": "`batch_top_k`, vectors of any length"}
"""Of what is no code's name."""


def rows(results: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Every code: the figures of both."""
    for name, found in results.items():
        seeds = found["seeds"].values()
        for who, title in (("anyformer", "anyformer"), ("saelens", "SAELens")):
            cells = (spread([row[who][each] for row in seeds], places) for each, places in FIGURES.items())
            yield TITLES.get(name, f"`{name}`"), len(seeds), title, *cells


def spread(values: Sequence[float], places: int) -> str:
    """A mean, with its standard deviation over seeds if there are several."""
    around = f" ± {stdev(values):.{places}f}" if len(values) > 1 else ""
    return f"{mean(values):.{places}f}{around}"


def pages(record: Mapping[str, Any]) -> dict[Path, str]:
    """The page with its table."""
    heads = ("code", "seeds", "trained by", *(f"`{each}`" for each in FIGURES))
    return filled(PAGES, {"saelens": table(heads, rows(record["results"]))})


if __name__ == "__main__":
    write(pages(json.loads(RESULT.read_text(encoding="utf-8"))))
