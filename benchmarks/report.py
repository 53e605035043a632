"""The tables of measured figures in the README, from the committed results: `python -m benchmarks.report`. A test compares."""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def table(what: str) -> str:
    """One sitting as Markdown, fastest first."""
    record = json.loads((RESULTS / f"{what}.json").read_text())
    rows = sorted(record["results"], key=lambda row: -row["tokens_per_second"])
    lines = [f"| {what} | tokens/s | anyformer compiled is faster by |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['tokens_per_second']:,.0f} | {row['ours_is_faster_by']:.2f} |" for row in rows]
    machine = record["machine"]
    return "\n".join([*lines, "", f"{record['date']}, {machine['cpu']}, {machine['cores']} cores.", ""])


def report() -> str:
    """All tables."""
    return "\n".join(table(what) for what in ("training", "decoding"))


if __name__ == "__main__":
    print(report())
