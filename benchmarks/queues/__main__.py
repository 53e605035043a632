"""Foretold beside measured: `anyformer serve` under requests that come at random, from 20 to 90 % of what it can do.

    python -m benchmarks.queues

A Llama of a few million parameters with random weights is served on one core, and asked from another. Every one of twelve loads
is three rounds of requests, each between two sittings in which other requests show what the server's steps take, by its own
clock (`calibration.py`, `timed_server.py`). The simulation gets the times at which the requests of a round were sent, and says
when their tokens come (`rounds.py`). Writes benchmarks/results/queues.json after every load; called again, it goes on
(`--loads 4` ends after so many; `--redo 46` measures a load again that other work disturbed). Ends with an error where a
replayed figure, with the steps and the speed of the load itself, is further off than a tenth: that is the simulation's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.queues.calibration import SITTING, sat
from benchmarks.queues.rounds import ROUNDS, TRAFFIC, load
from benchmarks.queues.server import CHUNK, LENGTH, PLACES, served, write_model
from benchmarks.sitting import RESULTS, machine, written

SHARES = tuple(round(0.2 + 0.7 * i / 11, 3) for i in range(12))
"""Loads, as shares of the capacity."""
WITHIN = 0.1


def errors(row: Mapping[str, Any], by: str = "foretold") -> dict[str, float]:
    """What is foretold, or replayed, over what is measured, less one."""
    return {name: row[by][name] / value - 1 for name, value in row["measured"].items()}


def main() -> None:
    """Measure, foretell, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=len(SHARES), help="end after so many loads, and go on when called again")
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument(
        "--redo", type=int, nargs="+", default=[], metavar="PERCENT", help="measure these loads again; the record says so"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "queues.json", metavar="FILE")
    arguments = parser.parse_args()
    record: dict[str, Any] = {"loads": []}
    if arguments.output.exists() and not arguments.again:
        record = json.loads(arguments.output.read_text())
        redone = [row["share"] for row in record["loads"] if round(100 * row["share"]) in arguments.redo]
        record["loads"] = [row for row in record["loads"] if row["share"] not in redone]
        record["redone"] = sorted({*record.get("redone", []), *redone})
    server, client = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {client})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "steps.jsonl"
        parameters = write_model(Path(folder) / "model")
        record |= {"date": date.today().isoformat(), "machine": machine(), "parameters": parameters, "rounds": ROUNDS}
        record |= {"places": PLACES, "length": LENGTH, "chunk": CHUNK}
        with served(Path(folder) / "model", server, log) as port:
            sat(port, log, TRAFFIC.draw(SITTING))  # everything is warm
            before = sat(port, log, TRAFFIC.draw(SITTING, seed=1))
            left = [share for share in SHARES if share not in {row["share"] for row in record["loads"]}]
            for share in left[: arguments.loads]:
                row, before = load(port, log, share, before)
                record["loads"] = sorted([*record["loads"], row], key=lambda each: float(each["share"]))
                for by in ("foretold", "replayed"):
                    off = ", ".join(f"{name} {each:+.1%}" for name, each in errors(row, by).items())
                    print(f"{share:.0%} {by}: {off}", flush=True)
                written(arguments.output, record)
    loads = [(row["share"], errors(row, "replayed")) for row in record["loads"]]
    told = [(abs(each), f"{name} at {share:.0%}") for share, row in loads for name, each in row.items()]
    beyond = [f"{what} {each:.1%}" for each, what in sorted(told, reverse=True) if each > WITHIN]
    if beyond:
        raise SystemExit(f"{len(beyond)} of {len(told)} figures are further off than {WITHIN:.0%}: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
