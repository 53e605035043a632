"""What rewards teach beside examples: sums of two numbers, of equal minutes, from the same half-trained models.

    python -m benchmarks.rewards                        # six arms, three seeds, ten minutes each: three hours on one core
    python -m benchmarks.rewards --minutes 3 --arms grpo fine-tuning rejection --jobs 2

Every seed trains `recipes/addition.toml` once, which is right at times. Every arm goes on from there for as many minutes: by
answers of its own that are rewarded (`recipes/policy.toml`, a loss by name), by more examples (`fine-tuning`: the objective of
the first recipe), or by the best of its own answers (`rejection`: expert iteration). Told: the share of held-out sums that are
right digit by digit, whose pairs of numbers no training question has in either order, as the last evaluation finds it; means
over seeds with 95 % intervals of Student's t. Each run is a process of one thread. Writes benchmarks/results/rewards.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.sitting import RESULTS, machine

from anyformer.studies.statistics import interval

RESULT = RESULTS / "rewards.json"
ROOT = Path(__file__).parents[1]
LOSSES = {name: name for name in ("grpo", "rloo", "ppo", "dapo", "gspo")} | {"rejection": "expert_iteration"}
"""Arms that learn from rewards, and the loss of each."""
EXAMPLES = "fine-tuning"
RIGHT = {EXAMPLES: "whole_answers"}
"""The metric that is the share of right sums; `exact` of all others."""


def trained(recipe: str, out: Path, changes: Mapping[str, object]) -> dict[str, Any]:
    """The last evaluation of a run of a recipe with changes, in a process of one thread."""
    options = [option for path, value in changes.items() for option in ("--set", f"{path}={value}")]
    command = [sys.executable, "-m", "anyformer", "train", f"recipes/{recipe}.toml", "--out", str(out), *options]
    told = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if told.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{told.stdout}\n{told.stderr}")
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    found: dict[str, Any] = [line for line in lines if line["kind"] == "validation"][-1]
    return found


def changes_of(arm: str, start: Path, seed: int, minutes: float) -> tuple[str, dict[str, object]]:
    """The recipe of an arm, and what is changed in it."""
    shared = {"start_from": f'"{start}"', "seed": seed, "minutes": minutes, "plan.compile": "off"}
    if arm != EXAMPLES:
        return "policy", {**shared, "objective.loss": f'"{LOSSES[arm]}"'}
    return "policy", {**shared, "objective": '{kind="task"}'}


def went_on(arm: str, seed: int, start: Path, folder: Path, minutes: float) -> dict[str, Any]:
    """What an arm reached from the model at `start`."""
    recipe, changes = changes_of(arm, start, seed, minutes)
    last = trained(recipe, folder / f"{arm}-{seed}", changes)
    found = {"arm": arm, "seed": seed, "right": last["metrics"][RIGHT.get(arm, "exact")], "updates": last["step"]}
    print(f"seed {seed}, {arm}: {found['right']:.1%} right after {found['updates']:,} updates", flush=True)
    return found


def summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of every arm over seeds and its interval."""
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        values = [row["right"] for row in rows if row["arm"] == arm]
        told = interval(values) if len(values) > 1 else None
        found[arm] = {
            "right": round(sum(values) / len(values), 4),
            "interval": told and [round(told.low, 4), round(told.high, 4)],
            "seeds": [round(value, 4) for value in values],
            "updates": [row["updates"] for row in rows if row["arm"] == arm],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", default=[*LOSSES, EXAMPLES], choices=[*LOSSES, EXAMPLES])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side; one to a core")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(given.jobs) as pool:
        folder = Path(place)
        starts = {seed: folder / f"start-{seed}" for seed in given.seeds}
        begun = dict(
            zip(starts, pool.map(lambda each: trained("addition", each[1], {"seed": each[0]}), starts.items()), strict=True)
        )
        before = [{"arm": "start", "seed": seed, "right": found["metrics"]["whole_answers"], "updates": found["step"]}
                  for seed, found in begun.items()]  # fmt: skip
        asked = [(arm, seed) for seed in given.seeds for arm in given.arms]
        rows = list(pool.map(lambda each: went_on(each[0], each[1], starts[each[1]], folder, given.minutes), asked))
    record = {
        "date": date.today().isoformat(), "machine": machine(), "minutes": given.minutes, "jobs": given.jobs,
        "arms": summed([*before, *rows]),
    }  # fmt: skip
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["arms"], indent=1))


if __name__ == "__main__":
    main()
