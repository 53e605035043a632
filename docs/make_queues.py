"""Fills in the tables of docs/queues.md from benchmarks/results/queues.json and from what engines have printed:
`python docs/make_queues.py`. Without the first it says so.

What stands between `<!-- NAME -->` and `<!-- end of NAME -->` is written here; a test holds the page to its result.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

import anyformer as af
from anyformer.planning.engine_memory import PUBLISHED_MEMORY

PAGE = Path(__file__).parent / "queues.md"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "queues.json"
FIGURES = {
    "tokens_per_second": "tokens/s",
    "ttft_p50": "first token, half",
    "ttft_p95": "first token, 95%",
    "tpot_p50": "further tokens, half",
    "tpot_p95": "further tokens, 95%",
    "latency_p50": "last token, half",
    "latency_p95": "last token, 95%",
}
UNITS = {"weights": "GiB", "activations": "GiB", "cache": "GiB", "pages": "pages", "tokens": "tokens", "slots": "GiB"}
WITHIN = 0.1
UNMEASURED = "No result is committed yet: how near the simulation is to the server is not known.\n"
Record = Mapping[str, Any]


def loads(record: Record) -> str:
    """Measured latencies, and how far the foretold ones are off."""
    rows = []
    errors: dict[str, list[float]] = {name: [] for name in FIGURES}
    for row in record["loads"]:
        cells = [f"{row['share']:.0%}"]
        for name in FIGURES:
            measured, foretold = row["measured"][name], row["foretold"][name]
            errors[name].append(foretold / measured - 1)
            shown = f"{measured:,.0f}" if name == "tokens_per_second" else f"{1e3 * measured:,.3g} ms"
            cells.append(f"{shown} ({errors[name][-1]:+.0%})")
        rows.append(cells)
    every = [abs(each) for found in errors.values() for each in found]
    kept = sum(each <= WITHIN for each in every)
    worst = {FIGURES[name]: max(found, key=abs) for name, found in errors.items()}
    far = max(worst, key=lambda name: abs(worst[name]))
    said = (
        f"Measured, and in brackets what is foretold of it: {kept} of {len(every)} figures within {WITHIN:.0%}, the median of all "
        f"{statistics.median(every):.1%} off, the worst {worst[far]:+.0%} ({far}). 50 to 300 requests a load, of "
        f"which the first tenth is left out; {record['capacity']:.3g} requests a second are all that it can do. A Llama of "
        f"{record['parameters'] / 1e6:.1f} M parameters ({record['date']}, {record['machine']['cpu']})."
    )
    return f"{table(('load', *FIGURES.values()), rows)}\n{prose(said)}"


def engines() -> str:
    """What engines have printed of their memory, and what is counted here."""
    rows = []
    for case in PUBLISHED_MEMORY:
        foretold = case.foretold(af.architecture(case.model))
        rows += [
            (
                case.engine,
                case.model,
                name,
                f"{printed:,.10g} {UNITS[name]}",
                f"{foretold[name]:,.6g} {UNITS[name]}",
                f"{foretold[name] / printed - 1:+.1%}",
                f"<{case.address}>",
            )
            for name, printed in case.printed.items()
        ]
    return table(("engine", "model", "what", "printed", "counted", "off", "source"), rows)


def pages(record: Record) -> dict[Path, str]:
    """The page as it should be."""
    return filled((PAGE,), {"loads": loads(record) if record else UNMEASURED, "engines": engines()})


def result() -> Record:
    """What was measured, empty if nothing was."""
    return json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}


if __name__ == "__main__":
    write(pages(result()))
