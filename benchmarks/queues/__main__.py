"""Foretold beside measured: `anyformer serve` under requests that come at random, from 20 to 90 % of what it can do.

    python -m benchmarks.queues

A Llama of a few million parameters with random weights is served on one core, and asked from another. Before each of twelve
loads some seconds of other requests show what its steps take, by its own clock (`calibration.py`, `timed_server.py`). Then come
50 to 300 requests; the simulation gets the times at which they were sent, and says when their tokens come.
Writes benchmarks/results/queues.json after every load; called again, it goes on (`--loads 4` ends after so many).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.queues.calibration import CLIENTS, EACH, calibrated, fitted, steps_since
from benchmarks.queues.client import Answered, SentRequest, open_loop
from benchmarks.queues.server import CHUNK, LENGTH, PLACES, TOKEN, served, write_model
from benchmarks.queues.ways import RULES, came, foretold
from benchmarks.sitting import RESULTS, machine, written

from anyformer.planning.queues.distributions import lengths
from anyformer.planning.queues.measured_steps import MeasuredSteps
from anyformer.planning.queues.outcome import QueueOutcome
from anyformer.planning.queues.requests import ArrivingRequests, Traffic
from anyformer.planning.queues.simulate import Fleet, simulate

SHARES = tuple(round(0.2 + 0.7 * i / 11, 3) for i in range(12))
"""Loads, as shares of the capacity."""
FEWEST, MOST, LASTING = 50, 300, 13.0
"""Requests of a load, and the seconds that it lasts between these."""
TRAFFIC = Traffic(1.0, lengths("lognormal(80, 0.7)", 256), lengths("lognormal(24, 0.6)", 96))
WITHIN = 0.1
LATENCIES = ("ttft", "tpot", "latency")


def capacity(steps: MeasuredSteps, requests: ArrivingRequests) -> float:
    """Requests a second that are answered if all come at once."""
    return simulate(Fleet(steps, RULES), requests.at_rate(1e6)).requests_per_second


def load(port: int, log: Path, share: float, most: float) -> dict[str, Any]:
    """One load: measured; foretold of the times at which its requests were sent, by the steps of the calibration before it; and
    `replayed`, by the steps of the load itself, since the machine may be slower than a quarter of a minute ago."""
    count = max(FEWEST, min(MOST, round(share * most * LASTING)))
    seed = round(1000 * share)
    drawn = TRAFFIC.draw(count, seed=seed).at_rate(share * most)
    found = calibrated(port, log, TRAFFIC.draw(EACH * len(CLIENTS), seed=seed + 1))
    sent = [SentRequest(*each) for each in zip(drawn.arrived, drawn.prompt.tolist(), drawn.output.tolist(), strict=True)]
    begun = log.stat().st_size
    answered = asyncio.run(open_loop(port, sent, TOKEN))
    own, _ = fitted(steps_since(log, begun))
    answered.sort(key=lambda each: each.sent)
    simulated = foretold(answered, found.steps)
    return {
        "share": share,
        "rate": share * most,
        "requests": count,
        "measured": _figures(_measured(answered)),
        "foretold": _figures(found.ways.on(simulated)),
        "replayed": _figures(found.ways.on(foretold(answered, own))),
        "utilisation": simulated.utilisation,
        "calibration": found.record,
    }


def _measured(answered: Sequence[Answered]) -> QueueOutcome:
    requests = came(answered)
    first, last = np.array([each.first for each in answered]), np.array([each.last for each in answered])
    return QueueOutcome(requests, first, last, (0.0,), 0, 0, 0.0, float(last.max() - requests.arrived[0]))


def _figures(outcome: QueueOutcome) -> dict[str, float]:
    """Throughput, and median and 95th percentile of every latency."""
    found = {"tokens_per_second": outcome.tokens_per_second}
    for name in LATENCIES:
        found[f"{name}_p50"], found[f"{name}_p95"] = outcome.quantiles(getattr(outcome, name), (50.0, 95.0))
    return found


def errors(row: Mapping[str, Any], by: str = "foretold") -> dict[str, float]:
    """What is foretold, or replayed, over what is measured, less one."""
    return {name: row[by][name] / value - 1 for name, value in row["measured"].items()}


def main() -> None:
    """Measure, foretell, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=len(SHARES), help="end after so many loads, and go on when called again")
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument("--output", type=Path, default=RESULTS / "queues.json", metavar="FILE")
    arguments = parser.parse_args()
    record: dict[str, Any] = {"loads": []}
    if arguments.output.exists() and not arguments.again:
        record = json.loads(arguments.output.read_text())
    server, client = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {client})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "steps.jsonl"
        parameters = write_model(Path(folder) / "model")
        with served(Path(folder) / "model", server, log) as port:
            first = calibrated(port, log, TRAFFIC.draw(EACH * len(CLIENTS)))  # and everything is warm
            most = record.get("capacity") or capacity(first.steps, TRAFFIC.draw(2000))
            record |= {"date": date.today().isoformat(), "machine": machine(), "parameters": parameters, "capacity": most}
            record |= {"places": PLACES, "length": LENGTH, "chunk": CHUNK}
            for share in [each for each in SHARES if each not in {row["share"] for row in record["loads"]}][: arguments.loads]:
                row = load(port, log, share, most)
                record["loads"].append(row)
                for by in ("foretold", "replayed"):
                    off = ", ".join(f"{name} {each:+.1%}" for name, each in errors(row, by).items())
                    print(f"{share:.0%} {by}: {off}", flush=True)
                written(arguments.output, record)
    worst = max((abs(each), name, row["share"]) for row in record["loads"] for name, each in errors(row).items())
    print(f"worst of {len(record['loads'])} loads: {worst[1]} at {worst[2]:.0%}, {worst[0]:.1%} off (wanted: {WITHIN:.0%})")


if __name__ == "__main__":
    main()
