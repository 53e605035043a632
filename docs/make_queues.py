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
UNITS = {
    "weights": "GiB",
    "activations": "GiB",
    "cache": "GiB",
    "pages": "pages",
    "tokens": "tokens",
    "slots": "GiB",
    "windows": "GiB",
}
WITHIN = 0.1
UNMEASURED = "No result is committed yet: how near the simulation is to the server is not known.\n"
Record = Mapping[str, Any]


def loads(record: Record) -> str:
    """Measured latencies, and how far the foretold and the replayed ones are off."""
    rows = []
    for row in record["loads"]:
        cells = [f"{row['share']:.0%}"]
        for name in FIGURES:
            measured = row["measured"][name]
            shown = (
                f"{measured:,.0f}" if name == "tokens_per_second" else f"{1e3 * measured:,.{1 if measured < 0.1 else 0}f} ms"
            )
            off = (f"{row[by][name] / measured - 1:+.0%}" for by in ("foretold", "replayed"))
            cells.append(f"{shown} ({', '.join(off)})")
        rows.append(cells)
    requests = [row["requests"] for row in record["loads"]]
    capacities = sorted(row.get("capacity", record.get("capacity", 0.0)) for row in record["loads"])
    most = " to ".join(dict.fromkeys(f"{each:.3g}" for each in (capacities[0], capacities[-1])))
    said = (
        f"Measured, and in brackets how far off it is what was foretold by the steps of other requests in the seconds before and "
        f"behind, and what the same simulation gives with the steps of the load itself. Foretold: {_kept(record, 'foretold')}. With "
        f"the load's own steps: {_kept(record, 'replayed')}. What is between the two is the machine, whose speed changes from one "
        f"second to the next. The medians of {record.get('rounds', 1)} rounds, together {min(requests):,} to "
        f"{max(requests):,} requests a load; the first tenth of a round is left out. {most} requests a second are all that it can "
        f"do. A Llama of {record['parameters'] / 1e6:.1f} M parameters ({record['date']}, {record['machine']['cpu']}).{_again(record)}"
    )
    return f"{table(('load', *FIGURES.values()), rows)}\n{prose(said)}"


def _again(record: Record) -> str:
    """Which loads were measured a second time."""
    redone = [f"{share:.0%}" for share in record.get("redone", ())]
    return f" Measured a second time, since other work ran beside them: {', '.join(redone)}." if redone else ""


def _kept(record: Record, by: str) -> str:
    """How many figures are within the goal, and how far all are off."""
    off = [
        (row[by][name] / row["measured"][name] - 1, f"{FIGURES[name]} at {row['share']:.0%}")
        for row in record["loads"]
        for name in FIGURES
    ]
    kept, worst = sum(abs(each) <= WITHIN for each, _ in off), max(off, key=lambda each: abs(each[0]))
    median = statistics.median(abs(each) for each, _ in off)
    return (
        f"{kept} of {len(off)} figures within {WITHIN:.0%}, the median {median:.1%} off, the worst {worst[0]:+.0%} ({worst[1]})"
    )


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
