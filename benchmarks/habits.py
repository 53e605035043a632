"""Processor seconds of what a contributor and a reader wait for: questions without torch, one contract, the tests.

    python -m benchmarks.habits             # six questions and one contract: a minute
    python -m benchmarks.habits --tests     # `make test` too: half an hour of two cores

Instructions of 16 bits and AVX-512 are hidden from torch and oneDNN. Nothing else should run. Seconds are user's and system's
of a process and its children, medians over rounds; of the tests the clock's stand beside them. Questions are asked with an
empty cache, so that each is worked out; Python reads bytecode, as in an installation. Writes benchmarks/results/habits.json;
what was not measured stays as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.answers import SLOW
from benchmarks.compare import RESULTS, machine

RESULT = RESULTS / "habits.json"
ROOT = Path(__file__).parents[1]
LOG = ROOT / "build" / "habits-tests.log"
QUESTIONS = (
    "list llama",
    "show deepseek-v3 --set decoder.dense.latent_attention.heads=64",
    "diff llama-3-8b qwen3-8b",
    "match llama-3-8b --params 1.3B",
    "plan llama-3-8b --serve --length 8k",
    "cost llama-3-8b --mode decode",
)
CONTRACT = "check gpt2 --only causal"
ROUNDS = 5


def seconds_of(*command: str, **environment: str) -> float:
    """Processor seconds of a command that must succeed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env={**kept, **SLOW, **environment}, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def asked(words: str) -> float:
    """Median processor seconds of an `anyformer` command, worked out anew each time, after one that is not counted."""
    taken = []
    for _ in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory() as cache:
            taken.append(seconds_of(sys.executable, "-m", "anyformer", *words.split(), ANYFORMER_CACHE=cache))
    return round(statistics.median(taken[1:]), 3)


def tested(jobs: int) -> dict[str, Any]:
    """What `pytest` takes and says, whether all passes or not; its output is left in `LOG`."""
    LOG.parent.mkdir(exist_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with LOG.open("wb") as output:
        words = [sys.executable, "-m", "pytest", "-n", str(jobs), "--durations=300"]
        subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **SLOW}, cwd=ROOT)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = re.sub(r" in [\d.]+s.*", "", LOG.read_text(encoding="utf-8").strip().splitlines()[-1])
    took = {"seconds": round(clock), "processor seconds": round(processor)}
    return {"date": date.today().isoformat(), "jobs": jobs, "said": last, **took}


def main() -> None:
    """Measure, and keep what was not measured from the result before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="run all tests too")
    arguments = parser.parse_args()
    record = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    record |= {
        "date": date.today().isoformat(),
        "machine": machine(),
        "hidden": SLOW,
        "load": round(os.getloadavg()[0], 1),
        "processor seconds": {f"anyformer {words}": asked(words) for words in (*QUESTIONS, CONTRACT)},
    }
    if arguments.tests:
        record["tests"] = tested(jobs=2)
    print(json.dumps(record, indent=1))
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
