"""What every benchmark worker shares: its options, the serve loop, and how results are printed.

A worker is one process that builds one model, warms up, and then measures. Everything it says is one JSON object per
line on standard output; whatever the measured libraries print goes to standard error.

One shot: `--steps N --warmup W` measures N units and exits.
Serving: `--serve` prints a `ready` line, then answers each line `round N` on standard input with one line of N times,
until `quit` or the end of input. A waiting worker blocks on input and uses no processor time, so a driver can keep
several of them alive and let them take turns in one sitting. `processor_seconds` is the time all threads ran during the
round: far below threads x wall clock, something else was using the machine and the round should be repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TextIO


@dataclass
class Worker:
    """One built model, ready to be measured.

    `unit` does one unit of work (a training step, one generation) and returns its seconds, measured inside so that a
    worker can leave out what does not count (the prefill). `tokens` is how many tokens those seconds stand for. `facts`
    goes into the first result line and `outcome` into every later one, so that speed never comes without a check.
    """

    unit: Callable[[], float]
    tokens: int
    facts: dict[str, Any]
    outcome: Callable[[], dict[str, Any]] = field(default=dict)


def options(description: str, peers: Sequence[str]) -> argparse.ArgumentParser:
    """The options all workers understand; a worker adds its own before parsing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--peer", choices=peers, required=True)
    parser.add_argument("--steps", type=int, default=5, help="units to measure in one shot")
    parser.add_argument("--warmup", type=int, default=2, help="units before measuring; the first one includes compiling")
    parser.add_argument("--threads", type=int, default=None, help="default: what the library picks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON in one shot too (serving always does)")
    parser.add_argument("--serve", action="store_true", help="stay alive and measure on request")
    return parser


def versions(*packages: str) -> dict[str, str]:
    """Versions of the interpreter and of those `packages` that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def run(arguments: argparse.Namespace, build: Callable[[argparse.Namespace], Worker]) -> None:
    """Build, warm up, then measure once or serve, as `arguments` say."""
    out = _claim_stdout()
    begin = time.perf_counter()
    worker = build(arguments)
    built = time.perf_counter()
    warmup = [worker.unit() for _ in range(max(arguments.warmup, 1))]
    warmed = time.perf_counter()
    common = {"peer": arguments.peer, **worker.facts}
    ready = {
        "event": "ready",
        **common,
        "build_seconds": round(built - begin, 2),
        "warmup_seconds": round(warmed - built, 2),
        "warmup_times": [round(seconds, 5) for seconds in warmup],
        "tokens_per_unit": worker.tokens,
        **worker.outcome(),
    }
    if arguments.serve:
        _say(out, ready)
        _serve(sys.stdin, out, worker, common)
        return
    result = {**ready, **_measure(worker, arguments.steps)}
    if arguments.json:
        _say(out, result)
    else:
        rate = result["median_tokens_per_second"]
        print(f"{arguments.peer} {worker.facts.get('mode', '')}: {rate:,.1f} tokens/s", file=out, flush=True)


def _serve(lines: TextIO, out: TextIO, worker: Worker, common: dict[str, Any]) -> None:
    """Answer `round N` lines until `quit` or the end of input; a wrong line gets an `error` line and no work."""
    for line in iter(lines.readline, ""):
        match line.split():
            case []:
                continue
            case ["quit"]:
                return
            case ["round", count] if count.isdigit() and int(count) > 0:
                _say(out, {**_measure(worker, int(count)), "peer": common["peer"], "mode": common.get("mode")})
            case _:
                _say(out, {"event": "error", "message": f"expected 'round N' or 'quit', got {line.strip()!r}"})


def _measure(worker: Worker, count: int) -> dict[str, Any]:
    busy = time.process_time()
    times = [worker.unit() for _ in range(count)]
    busy = time.process_time() - busy
    return {
        "event": "round",
        "times": [round(seconds, 6) for seconds in times],
        "processor_seconds": round(busy, 3),
        "tokens_per_unit": worker.tokens,
        "median_tokens_per_second": round(worker.tokens / statistics.median(times), 2),
        **worker.outcome(),
    }


def _claim_stdout() -> TextIO:
    """Keep standard output for results alone: from here on, what anybody prints goes to standard error."""
    sys.stdout.flush()
    mine = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return mine


def _say(out: TextIO, message: dict[str, Any]) -> None:
    print(json.dumps(message), file=out, flush=True)
