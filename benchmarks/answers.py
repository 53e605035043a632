"""Processor seconds of questions about architectures of the catalogue: asked first, with a shipped answer, and again.

    python -m benchmarks.start answers

On a slow machine: instructions of 16 bits and AVX-512 are hidden from torch and oneDNN, and a second process is busy beside it.
The seconds are user's and system's of the command's process and its children, not those of the clock; beside others they grow,
as caches and cores are shared.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from anyformer.cache import ship
from anyformer.cache.code import SHIPPED
from anyformer.cli.shipping import answers

QUESTIONS = (
    "show deepseek-v3",
    "cost deepseek-v3",
    "diff llama-3-8b qwen3-8b",
    "plan llama-2-13b --gpus 8 --hardware a100 --length 8k",
    "match llama-3-8b --params 1.3B",
)
WHEN = ("first", "first, shipped", "again")
SLOW = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
BUSY = "x = 0\nwhile True: x += 1"


def measured(rounds: int = 1, again: int = 3) -> dict[str, Any]:
    """Median seconds of every question, and the most that a remembered answer took; each round asks all questions.

    In each of `rounds` a question is worked out once, and told `again` so many times.
    """
    told = list(answers(QUESTIONS))
    seconds: dict[str, dict[str, list[float]]] = {question: {when: [] for when in WHEN} for question in QUESTIONS}
    with _busy():
        for _ in range(rounds):
            for question, taken in seconds.items():
                with tempfile.TemporaryDirectory() as cache, _shipping([]):
                    taken["first"].append(_processor(question, cache))
                    taken["again"] += [_processor(question, cache) for _ in range(again)]
                with _shipping(told):
                    for _ in range(again):
                        with tempfile.TemporaryDirectory() as cache:
                            taken["first, shipped"].append(_processor(question, cache))
    medians = {
        f"anyformer {question}": {when: round(statistics.median(each), 3) for when, each in taken.items()}
        for question, taken in seconds.items()
    }
    remembered = [each for taken in seconds.values() for each in taken["again"] + taken["first, shipped"]]
    return {
        "date": date.today().isoformat(),
        "environment": SLOW,
        "beside it": f"one busy process of its own, and others: load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "rounds": rounds,
        "told again in each": again,
        "processor seconds": medians,
        "most of a remembered answer": round(max(remembered), 3),
    }


def _processor(question: str, cache: str) -> float:
    """Processor seconds of a command, whose Python reads and writes bytecode, as an installation does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "anyformer", *question.split()]
    subprocess.run(command, capture_output=True, check=True, env=environment | SLOW | {"ANYFORMER_CACHE": cache})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def _busy() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _shipping(sealed: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Inside, these answers are shipped with the package, and no others."""
    before = SHIPPED.read_bytes() if SHIPPED.exists() else None
    try:
        ship(sealed)
        yield
    finally:
        SHIPPED.unlink()
        if before is not None:
            SHIPPED.write_bytes(before)
