"""How long threads wait awake, alone and beside a busy process: an update of `make train`'s 1.1 M parameters on two threads.

    python -m benchmarks.threads --folder build/threads

Each way of waiting in turn, alone and beside one and two processes that never wait; the instructions of AVX-512 and of 16 bits
are hidden from torch's libraries. Medians of milliseconds per update over rounds. Writes benchmarks/results/threads.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks.first_run import RECIPE, SLOW, busy
from benchmarks.sitting import RESULTS, machine

from anyformer.cli.threads import TURNS
from anyformer.training import read_run
from anyformer.training.journal import read_metrics

ROUNDS, UPDATES, WARM, SECONDS = 3, 50, 5, 90
WAYS = {
    "GNU's default": {"GOMP_SPINCOUNT": "300000"},
    "ours": {"GOMP_SPINCOUNT": str(TURNS)},
    "asleep at once": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def milliseconds(folder: Path, way: dict[str, str], others: int) -> float:
    """The median update of a run, as far as it comes in `SECONDS`."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    sets = [f"--set={text}" for text in (*read_run(RECIPE).smaller[1].set, f"steps={UPDATES}", "sample=''")]
    command = [sys.executable, "-m", "anyformer", "train", str(RECIPE), *sets, "--out", str(out)]
    environment = {**os.environ, **SLOW, "ANYFORMER_CACHE": str(folder / "cache"), **way}
    with ExitStack() as stack:
        for _ in range(others):
            stack.enter_context(busy())
        try:
            subprocess.run(command, env=environment, timeout=SECONDS, check=True, stdout=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            print("not whole", file=sys.stderr)
    seconds = [row["seconds"] for row in read_metrics(out) if row["kind"] == "train"]
    return 1e3 * median(seconds[WARM:] or seconds)


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs are")
    folder = parser.parse_args().folder
    milliseconds(folder, WAYS["ours"], 0)  # which prepares the text
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        for others in range(3):
            for name, way in WAYS.items():
                found.setdefault(f"{others} beside", {}).setdefault(name, []).append(milliseconds(folder, way, others))
    record = {
        "date": date.today().isoformat(), "machine": machine(), "hidden": SLOW, "milliseconds": {
            others: {name: [round(each) for each in rounds] for name, rounds in ways.items()} for others, ways in found.items()
        },
    }  # fmt: skip
    (RESULTS / "threads.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for others, ways in found.items():
        print(others, "  ".join(f"{name} {median(rounds):.0f} ms" for name, rounds in ways.items()))


if __name__ == "__main__":
    main()
