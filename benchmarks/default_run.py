"""The README's run in four processes against one: the losses of its first 50 updates, in fp32 and eager.

    python -m benchmarks.default_run --folder build/default-run

All train recipes/stdlib.toml for 50 updates instead of its minutes, one process with the batch in as many pieces as there are
processes, and once more with the whole batch at a time: another order of sums, whose rounding grows as that of four processes
does. A run in the folder already is not repeated. No figure depends on the machine's speed. Writes
benchmarks/results/default_run.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

from anyformer.training.journal import read_metrics

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "stdlib.toml"
RESULT = Path(__file__).parent / "results" / "default_run.json"
UPDATES, PROCESSES, BOUND = 50, 4, 1e-4
SETTINGS = {
    "plan.precision": "fp32", "plan.compile": "off", "evaluation.every": 1000, "evaluation.final_tokens": 2048,
    "evaluation.baseline": "false",
}  # fmt: skip


def train(folder: Path, name: str, processes: int, accumulation: int) -> list[float]:
    """The losses of a run."""
    out = folder / name
    if not (out / "summary.json").exists():
        text = RECIPE.read_text(encoding="utf-8").splitlines()
        run = folder / "run.toml"
        run.write_text(
            "\n".join(f"steps = {UPDATES}" if line.startswith("minutes") else line for line in text), encoding="utf-8"
        )
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
        sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, *several, "-m", "anyformer", "train", str(run), *sets]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "--set", f"accumulation={accumulation}", "--out", str(out)], check=True, env=environment)
    return [row["loss"] for row in read_metrics(out) if row["kind"] == "train"]


def main() -> None:
    """Train, compare, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs are")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    one, whole = train(folder, "one", 1, PROCESSES), train(folder, "whole", 1, 1)
    apart = {"four processes": gaps(train(folder, "four", PROCESSES, 1), one), "one process, another order": gaps(whole, one)}
    facts = {"date": date.today().isoformat(), "versions": {"torch": version("torch")}, "processes": PROCESSES}
    RESULT.write_text(json.dumps({**facts, "losses": one, "apart": apart}, indent=1) + "\n", encoding="utf-8")
    for name, each in apart.items():
        within = next((step for step, gap in enumerate(each) if gap > BOUND), len(each))
        print(f"{name}: {within} of {len(each)} updates within {BOUND:g}; at the 20th {each[19]:.0e}, at most {max(each):.0e}")


def gaps(ours: list[float], theirs: list[float]) -> list[float]:
    """|ours - theirs| / theirs, update by update."""
    return [abs(a - b) / b for a, b in zip(ours, theirs, strict=True)]


if __name__ == "__main__":
    main()
