"""How long pricing takes: in process and from the shell, over the catalogue, and a thousand evaluations of the solver.

    python -m benchmarks.costs [--every 30]

In process: `af.cost` with parameters, FLOPs and decode state; with every figure of one mode; the whole page of three modes.
Of each entry the median of seven runs after one that warms up; reported are the median and the slowest entry. From the shell:
`anyformer cost NAME` in a new process, every thirtieth entry by default (and the largest): with nothing remembered of it, so
that what a training step saves is traced, and the second time. Each time is taken beside that of `import torch`, in turn, and
the median of five differences counts, for the speed of a machine changes within minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from unittest import mock

from benchmarks.compare import RESULTS, machine
from benchmarks.start import seconds

import anyformer as af
from anyformer.catalogue import listing
from anyformer.costs.budget import Budget
from anyformer.costs.page import longest, page
from anyformer.costs.search import Search
from anyformer.costs.sheet import MODES, CostSheet
from anyformer.costs.text import text
from anyformer.resizing.sizes import Sizes

LARGEST = ("llama-3.1-405b", "kimi-k2", "minimax-text-01")
TORCH = ("-c", "import torch")
SHELL = ("-c", "from anyformer.cli import main; main()", "cost")
FIGURES: dict[str, Callable[[CostSheet], object]] = {
    "parameters, FLOPs, state": lambda sheet: (sheet.params, sheet.flops, sheet.state),
    "every figure of a training step": lambda sheet: sheet.data(),
    "the page of three modes": lambda sheet: text(page(sheet, MODES)),
}


def in_process(name: str, figures: Callable[[CostSheet], object]) -> float:
    """Median milliseconds of one entry."""
    made, spent = af.architecture(name), []
    for _ in range(8):
        begin = time.perf_counter()
        figures(af.cost(made, batch=1, length=min(4096, longest(made) or 4096), hardware="h100"))
        spent.append(1000 * (time.perf_counter() - begin))
    return statistics.median(spent[1:])


def spread(found: dict[str, float]) -> dict[str, object]:
    slowest = max(found, key=lambda name: found[name])
    return {"entries": len(found), "median": statistics.median(found.values()), "slowest": [slowest, found[slowest]]}


def from_the_shell(name: str) -> tuple[float, float, float]:
    """Median seconds of importing torch; of first calls, each with a cache of its own, and of second ones, beyond that."""
    rounds = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"ANYFORMER_CACHE": cache}):
            torch, first, second = (seconds(sys.executable, *what, rounds=1) for what in (TORCH, *2 * ((*SHELL, name),)))
            rounds.append((torch, first - torch, second - torch))
    torch, first, second = map(statistics.median, zip(*rounds, strict=True))
    return torch, first, second


def evaluations(name: str) -> float:
    """Seconds of a thousand architectures priced for every budget."""
    made = af.architecture(name)
    asked = Budget(parameters=10**9, active=10**9, training_flops=10**9, decode_bytes=10**9, length=8192)
    search, depth = Search(made, asked, 8), made.output_stack.depth
    begin = time.perf_counter()
    for i in range(1000):
        search.costs(Sizes(made.width, depth, 1024 + 8 * i))
    return time.perf_counter() - begin


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=30, help="which entries the shell prices: each so many-th")
    every = parser.parse_args().every
    names = [entry.name for entry in listing()]
    shell = {name: from_the_shell(name) for name in dict.fromkeys([*names[::every], *LARGEST])}
    record = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "milliseconds in process": {
            what: spread({name: in_process(name, figures) for name in names}) for what, figures in FIGURES.items()
        },
        "seconds of import torch": statistics.median(torch for torch, _, _ in shell.values()),
        "seconds beyond import torch, the first time": spread({name: first for name, (_, first, _) in shell.items()}),
        "seconds beyond import torch, the second time": spread({name: second for name, (_, _, second) in shell.items()}),
        "seconds of 1,000 evaluations": {name: evaluations(name) for name in LARGEST},
    }
    print(json.dumps(record, indent=1))
    (RESULTS / "costs.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
