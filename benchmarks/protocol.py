"""What every benchmark worker shares: its options, the serve loop, and how results are printed.

A worker is one process that builds one model, warms up, and then measures. Everything it says is one JSON object per
line on standard output; whatever the measured libraries print goes to standard error.

One shot: `--steps N --warmup W` measures N units and exits.
Serving: `--serve` prints a `ready` line, then answers each line `round N` on standard input with one line of N times,
until `quit` or the end of input. `case B C W` gives a worker that knows more than one case another batch and context, answered
by a new `ready` line after W units of warm-up. A waiting worker blocks on input and uses no processor time, so a driver can
keep several of them alive and let them take turns in one sitting. `processor_seconds` is the time all threads ran during the
round: far below threads x wall clock, something else was using the machine and the round should be repeated.
`peak_bytes` is the largest resident size of the process during the round, `bytes_before` its size before the model was
built, with all libraries loaded (Linux).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO


@dataclass
class Worker:
    """One built model, ready to be measured.

    `unit` does one unit of work (a training step, one generation) and returns its seconds, measured inside so that a
    worker can leave out what does not count (the prefill). `tokens` is how many tokens those seconds stand for. `facts`
    goes into the first result line and `outcome` into every later one, so that speed never comes without a check. `at`: the
    worker of another batch and context, where there are several.
    """

    unit: Callable[[], float]
    tokens: int
    facts: dict[str, Any]
    outcome: Callable[[], dict[str, Any]] = field(default=dict)
    at: Callable[[int, int], Worker] | None = None


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
    before = resident("VmRSS")
    begin = time.perf_counter()
    worker = build(arguments)
    common = {"bytes_before": before, "build_seconds": round(time.perf_counter() - begin, 2)}
    ready = _warmed(worker, arguments, max(arguments.warmup, 1)) | common
    if arguments.serve:
        _say(out, ready)
        _serve(sys.stdin, out, worker, arguments, common)
        return
    result = {**ready, **_measure(worker, arguments.steps)}
    if arguments.json:
        _say(out, result)
    else:
        rate = result["median_tokens_per_second"]
        print(f"{arguments.peer} {worker.facts.get('mode', '')}: {rate:,.1f} tokens/s", file=out, flush=True)


def resident(entry: str) -> int | None:
    """Bytes of an entry in /proc/self/status; None where there is no such file."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{entry}:")), None)


def _warmed(worker: Worker, arguments: argparse.Namespace, units: int) -> dict[str, Any]:
    """The `ready` line of a worker after `units` of warm-up."""
    begin = time.perf_counter()
    warmup = [worker.unit() for _ in range(units)]
    return {
        "event": "ready",
        "peer": arguments.peer,
        **worker.facts,
        "warmup_seconds": round(time.perf_counter() - begin, 2),
        "warmup_times": [round(seconds, 5) for seconds in warmup],
        "tokens_per_unit": worker.tokens,
        **(worker.outcome() if units else {}),
    }


def _serve(lines: TextIO, out: TextIO, worker: Worker, arguments: argparse.Namespace, common: dict[str, Any]) -> None:
    """Answer lines until `quit` or the end of input; a wrong line gets an `error` line and no work."""
    for line in iter(lines.readline, ""):
        match line.split():
            case []:
                continue
            case ["quit"]:
                return
            case ["round", count] if count.isdigit() and int(count) > 0:
                said = {"peer": arguments.peer, "mode": worker.facts.get("mode")}
                _say(out, {**_measure(worker, int(count)), **said})
            case ["case", *numbers] if worker.at and len(numbers) == 3 and all(map(str.isdigit, numbers)):
                batch, context, units = map(int, numbers)
                worker = worker.at(batch, context)
                _say(out, _warmed(worker, arguments, units) | common)
            case _:
                _say(out, {"event": "error", "message": f"expected 'round N', 'case B C W' or 'quit', got {line.strip()!r}"})


def _measure(worker: Worker, count: int) -> dict[str, Any]:
    _forget_peak()
    busy = time.process_time()
    times = [worker.unit() for _ in range(count)]
    busy = time.process_time() - busy
    return {
        "event": "round",
        "times": [round(seconds, 6) for seconds in times],
        "processor_seconds": round(busy, 3),
        "peak_bytes": resident("VmHWM"),
        "tokens_per_unit": worker.tokens,
        "median_tokens_per_second": round(worker.tokens / statistics.median(times), 2),
        **worker.outcome(),
    }


def _forget_peak() -> None:
    """Let the system record the largest size of the process anew, where it can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _claim_stdout() -> TextIO:
    """Keep standard output for results alone: from here on, what anybody prints goes to standard error."""
    sys.stdout.flush()
    mine = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return mine


def _say(out: TextIO, message: dict[str, Any]) -> None:
    print(json.dumps(message), file=out, flush=True)
