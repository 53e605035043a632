"""Fills in the table of docs/cluster.md from benchmarks/results/equality.json: `python docs/make_cluster.py`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("cluster.md")
RESULT = ROOT / "benchmarks" / "results" / "equality.json"
BEGIN, END = "<!-- equality -->\n", "<!-- end of equality -->"


def table() -> str:
    """The largest differences of each mode and number of processes."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    groups: dict[tuple[str, int], list[dict[str, object]]] = {}
    for each in record["results"]:
        groups.setdefault((each["case"].split(":")[1], each["ranks"]), []).append(each)
    lines = ["| mode | processes | cases | loss | gradient | weight |", "|---|---|---|---|---|---|"]
    for (mode, ranks), rows in sorted(groups.items()):
        largest = (max(float(str(row[name])) for row in rows) for name in ("loss", "gradient", "weight"))
        lines.append(f"| {mode} | {ranks} | {len(rows)} | {' | '.join(f'{value:.0e}' for value in largest)} |")
    said = "The largest relative difference from one process, of whole tensors"
    return "\n".join([f"{said} ({record['date']}, torch {record['versions']['torch']}):", "", *lines, ""])


def page() -> str:
    """The page with its table."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
