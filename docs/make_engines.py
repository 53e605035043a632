"""Fills in the table of `docs/engines.md` and writes `docs/reference/engines.md` from benchmarks/results/engines/*.json.

python docs/make_engines.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

DOCS = Path(__file__).parent
PAGE, REFERENCE = DOCS / "engines.md", DOCS / "reference" / "engines.md"
RESULTS = DOCS.parent / "benchmarks" / "results" / "engines"
NAMES = {
    "llama.cpp": "llama.cpp",
    "vllm": "vLLM",
    "vllm-layouts": "vLLM with our own layout",
    "onnx": "ONNX Runtime",
    "ctranslate2": "CTranslate2",
    "elsewhere": "transformers' tools",
    "vocabularies": "tokenizers of llama.cpp",
}
"""Files of results by what the pages call them, in their order."""
HEADS = ("what", "opened as", "precision", "tokens", "equal", "largest difference", "besides")


def records() -> list[Mapping[str, Any]]:
    """What was compared, engine by engine."""
    found = [RESULTS / f"{name}.json" for name in NAMES]
    return [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]


def pages() -> dict[Path, str]:
    """Both pages as of today."""
    return {**filled((PAGE,), {"engines": overview(records())}), REFERENCE: reference(records())}


def same(row: Mapping[str, Any], close: float) -> bool:
    """Whether all that was compared is equal."""
    return row["tokens"] == row["equal"] and row.get("difference", 0.0) <= close


def compared(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows that ran."""
    return [row for row in record["rows"] if "reason" not in row]


def overview(found: Sequence[Mapping[str, Any]]) -> str:
    """One line per engine and way: how many, how many of them equal, how far numbers are apart."""
    lines = []
    for record in found:
        ran = compared(record)
        for way in dict.fromkeys((row["way"], row["precision"]) for row in ran):
            rows = [row for row in ran if (row["way"], row["precision"]) == way]
            equal = [row for row in rows if same(row, record["close"])]
            apart = [row["difference"] for row in equal if "difference" in row]
            versions = sorted({row["version"] for row in rows})
            lines.append(
                (
                    f"[{NAMES[record['engine']]}](reference/engines.md#{anchor(record)}) {', '.join(versions)}", way[0], way[1],
                    len({row["name"] for row in rows}), len({row["name"] for row in equal}), number(max(apart, default=None)),
                )
            )  # fmt: skip
    return table(("engine", "opened as", "precision", "compared", "equal", "largest difference"), lines)


def anchor(record: Mapping[str, Any]) -> str:
    """Of an engine's heading."""
    return "".join(each for each in NAMES[record["engine"]].lower() if each.isalnum() or each in " -").replace(" ", "-")


def reference(found: Sequence[Mapping[str, Any]]) -> str:
    """The page of all rows."""
    intro = prose(
        "Every row is a tiny random model that `anyformer export` wrote and the real engine read: its greedy tokens and all its "
        "numbers beside those that this package computes in fp32 from the same tokens. Made by `python docs/make_engines.py` from "
        "the results of `python -m benchmarks.engines`; [engines](../engines.md) says how to use them."
    )
    return "# Engines, row by row\n\n" + intro + "".join("\n" + section(record) for record in found)


def section(record: Mapping[str, Any]) -> str:
    """An engine's heading, what it ran on, its rows, and what could not run."""
    ran, other = compared(record), [row for row in record["rows"] if "reason" in row]
    text = f"## {NAMES[record['engine']]}\n\n" + prose(" ".join(told(record, ran)))
    if ran:
        text += "\n" + table(HEADS, (cells(row, record["close"]) for row in ran))
    if other:
        text += "\nNot compared:\n\n" + "".join(f"- {row['name']} ({row['way']}): {row['reason']}\n" for row in other)
    return text


def told(record: Mapping[str, Any], ran: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Versions, processors and calls."""
    yield f"{', '.join(f'{name} {version}' for name, version in record['versions'].items())};"
    where = dict.fromkeys((row["processor"], tuple(row.get("flags", ()))) for row in ran)
    yield "; ".join(f"{cpu} ({', '.join(flags) or 'none of the newer instructions'})" for cpu, flags in where) + "."
    for quantity in dict.fromkeys(row["quantity"] for row in ran if "difference" in row):
        yield f"Largest differences are those of {quantity}, and equal means at most {record['close']:g}."
    calls = {tuple(row.get("cases", ())) for row in ran}
    if len(calls) == 1 and any(calls):
        yield f"Calls: {', '.join(calls.pop())}."


def cells(row: Mapping[str, Any], close: float) -> tuple[object, ...]:
    """A row of the table; one that differs says so."""
    equal = f"{row['equal']:,}" if same(row, close) else f"**{row['equal']:,}**"
    besides = "; ".join(filter(None, (f"**{row['departs']}**" if "departs" in row else "", row.get("note", ""))))
    return (
        f"`{row['name']}`", row["way"], row["precision"], f"{row['tokens']:,}", equal, number(row.get("difference")), besides,
    )  # fmt: skip


def number(value: float | None) -> str:
    """Two figures, or a line where there is none."""
    return "-" if value is None else f"{value:.1e}"


if __name__ == "__main__":
    write(pages())
