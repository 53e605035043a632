"""Fills in the table of docs/utilisation.md from benchmarks/results/formulas.json: `python docs/make_formulas.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.formulas.projects import FORMULAS
from page_text import filled, prose, table, write

PAGE = Path(__file__).parent / "utilisation.md"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "formulas.json"
Record = Mapping[str, Any]


def formulas(record: Record) -> str:
    """How far every formula is off, a row per model and a column per project; then where each is published."""
    found = {(row["model"], row["project"]): row for row in record["rows"]}
    rows = []
    for model in record["models"]:
        cells = [cell(found[model["model"], each.project]) for each in FORMULAS]
        rows.append([f"{model['model']}: {model['about']}", f"{model['length']:,}", *cells])
    heads = ("model", "tokens", *(each.project for each in FORMULAS))
    said = (
        "Off the FLOPs of the pairs that masks allow; in brackets, for projects that count every pair, off those of every pair. "
        "A dash: the project gives no formula for such a model; `fails`: its function stops there. "
        f"The last compared on {record['date']}; predictions of later tokens are left out."
    )
    addresses = ", ".join(f"[{each.project}]({each.address}) (`{each.function}`)" for each in FORMULAS)
    return f"{table(heads, rows)}\n{prose(said)}\nThe formulas, as they stood: {addresses}.\n"


def cell(row: Mapping[str, Any]) -> str:
    """One formula for one model."""
    if "off" not in row:
        return "fails" if row["why"].startswith("fails") else "-"
    convention = next(each.convention for each in FORMULAS if each.project == row["project"])
    granted = f" ({percent(row['granted'])})" if convention == "every" else ""
    return percent(row["off"]) + granted


def percent(share: float) -> str:
    """A difference in percent; 0 for less than a twentieth of one."""
    if abs(share) >= 1:
        return f"{1 + share:.3g} x"
    return "0" if abs(share) < 0.0005 else f"{share:+.1%}"


def pages(record: Record) -> dict[Path, str]:
    """The page as it should be."""
    return filled((PAGE,), {"formulas": formulas(record)})


def result() -> Record:
    """What was compared."""
    return json.loads(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write(pages(result()))
