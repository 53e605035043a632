"""A run whose minutes are those of the processor, so that a machine that others use too gives it as much work to do.

    python -m benchmarks.processor_run RECIPE.toml OUT '{"seed": 1, "minutes": 4.0}'

In one thread. `ran` starts it in a process of its own, and gives its lines of evaluations.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def ran(recipe: str | Path, out: Path, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The evaluations of a run of a recipe with changes by path, which is not made again where it has ended."""
    if not (out / "summary.json").exists():
        command = [sys.executable, "-m", "benchmarks.processor_run", str(recipe), str(out), json.dumps(changes)]
        told = subprocess.run(command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True)
        if told.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{told.stdout}\n{told.stderr}")
    lines = map(json.loads, (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "validation"]


def main() -> None:
    """Train, by the clock of this process."""
    from anyformer.training import budget, load_run, train

    budget.clock = time.process_time
    recipe, out, changes = sys.argv[1:]
    train(load_run(recipe, json.loads(changes)), out)


if __name__ == "__main__":
    main()
