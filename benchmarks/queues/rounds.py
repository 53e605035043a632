"""One load: rounds of requests at random times, each between two sittings that show what the server's steps take then.

The machine's speed changes within seconds, and near its capacity a server that is one percent slower lets requests wait ten
percent longer. So a load is several rounds, seconds long, of other requests each; a round is foretold by the sittings before
and behind it; and of the rounds the medians count, of what is measured and of what is foretold alike. What is `replayed` has
the steps of the round itself, and the speed that they show from second to second (`speed.py`).
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.queues.calibration import SITTING, Sitting, calibrated, fitted, sat, steps_since
from benchmarks.queues.client import Answered, SentRequest, open_loop
from benchmarks.queues.server import TOKEN
from benchmarks.queues.speed import even_time, replayed
from benchmarks.queues.ways import RULES, came, foretold

from anyformer.planning.queues.distributions import lengths
from anyformer.planning.queues.measured_steps import MeasuredSteps
from anyformer.planning.queues.outcome import QueueOutcome
from anyformer.planning.queues.requests import Traffic
from anyformer.planning.queues.simulate import Fleet, simulate

ROUNDS = 3
SECONDS, MORE, LEAST = 3.0, 10.0, 80
"""Of a round without any load, how many more at all of it, and its requests at the least: waits near the capacity take longest
to show, and of few requests the 95th percentile is one."""
TRAFFIC = Traffic(1.0, lengths("lognormal(80, 0.7)", 256), lengths("lognormal(24, 0.6)", 96))
LATENCIES = ("ttft", "tpot", "latency")
WAYS = ("measured", "foretold", "replayed")


def capacity(steps: MeasuredSteps) -> float:
    """Requests a second that are answered if all come at once."""
    return simulate(Fleet(steps, RULES), TRAFFIC.draw(1000).at_rate(1e6)).requests_per_second


def load(port: int, log: Path, share: float, before: Sitting) -> tuple[dict[str, Any], Sitting]:
    """A load of a share of what the sitting before it says that the server can do; and the sitting behind it."""
    most, rounds = capacity(calibrated(before).steps), list[dict[str, Any]]()
    for number in range(ROUNDS):
        seed = 1000 * number + round(1000 * share)
        count = max(LEAST, round(share * most * (SECONDS + MORE * share)))
        drawn = TRAFFIC.draw(count, seed=seed).at_rate(share * most)
        sent = [SentRequest(*each) for each in zip(drawn.arrived, drawn.prompt.tolist(), drawn.output.tolist(), strict=True)]
        begun, begin = log.stat().st_size, time.perf_counter() + 0.2
        answered = sorted(asyncio.run(open_loop(port, sent, TOKEN, begin)), key=lambda each: each.sent)
        steps = steps_since(log, begun)
        own, _ = fitted(steps)
        after = sat(port, log, TRAFFIC.draw(SITTING, seed=seed + 1))
        around = calibrated(before, after)
        rounds.append(
            {
                "measured": figures(measured(answered)),
                "foretold": figures(around.ways.on(foretold(answered, around.steps))),
                "replayed": figures(around.ways.on(replayed(Fleet(own, RULES), came(answered), even_time(steps, own, begin)))),
                "calibration": around.record,
            }
        )
        before = after
    row = {"share": share, "capacity": most, "requests": ROUNDS * count}
    return row | {way: middle([each[way] for each in rounds]) for way in WAYS} | {"rounds": rounds}, before


def middle(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every figure."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def measured(answered: Sequence[Answered]) -> QueueOutcome:
    """What clients saw."""
    requests = came(answered)
    first, last = np.array([each.first for each in answered]), np.array([each.last for each in answered])
    return QueueOutcome(requests, first, last, (0.0,), 0, 0, 0.0, float(last.max() - requests.arrived[0]))


def figures(outcome: QueueOutcome) -> dict[str, float]:
    """Throughput, and median and 95th percentile of every latency."""
    found = {"tokens_per_second": outcome.tokens_per_second}
    for name in LATENCIES:
        found[f"{name}_p50"], found[f"{name}_p95"] = outcome.quantiles(getattr(outcome, name), (50.0, 95.0))
    return found
