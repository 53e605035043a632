"""What rewards teach beside examples: sums of two numbers, of equal minutes, from the same half-trained models.

    python -m benchmarks.rewards                        # eight arms, three seeds: goes on where it stopped
    python -m benchmarks.rewards --arms grpo fine-tuning --minutes 1 --output /tmp/short.json

Every seed trains `recipes/addition.toml` until an evaluation, one every 20 updates, finds a fifth of the sums right: a model
learns to add within some dozens of updates, and every seed at another time. Every arm goes on from there for as many minutes of
a processor, in one thread: by answers of its own that are rewarded (`recipes/policy.toml`, a loss by name), by more examples
(`fine-tuning`: the objective of the first recipe), or by the best of its own answers (`rejection`: expert iteration). Told: the
share of held-out sums that are right digit by digit, whose pairs of numbers no training question has in either order, as the
last evaluation finds it, and when an evaluation first found 90 %; means over seeds with 95 % intervals of Student's t. Models
lie in `--folder`; what has ended is not made again. Writes benchmarks/results/rewards.json after every run;
`python docs/make_preferences.py` then fills in the page.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.processor_run import ROOT, ran
from benchmarks.sitting import RESULTS, machine

from anyformer.studies.statistics import interval

RESULT = RESULTS / "rewards.json"
RECIPES = ROOT / "recipes"
LOSSES = {name: name for name in ("grpo", "dapo", "rloo", "gspo", "ppo")} | {"rejection": "expert_iteration"}
"""Arms that learn from rewards, and the loss of each."""
EXAMPLES, START = "fine-tuning", "start"
ARMS = ("grpo", EXAMPLES, "rejection", "dapo", "rloo", "gspo", "ppo")
RIGHT = {EXAMPLES: "whole_answers", START: "whole_answers"}
"""The metric that is the share of right sums; `exact` of all others."""
WANTED = 0.9
MINUTES = 2.0
BEGUN, AT_MOST, OFTEN = 0.2, 800, {"evaluation.every": 20, "evaluation.batches": 8}
"""Where a half-trained model is taken: at the first evaluation with this share right, of so many updates."""


def arm_of(arm: str, seed: int, start: Path, minutes: float) -> dict[str, Any]:
    """What an arm changes in `recipes/policy.toml`."""
    shared = {"start_from": str(start), "seed": seed, "minutes": minutes, "plan.compile": "off"}
    if arm == EXAMPLES:
        return {**shared, "objective": {"kind": "task"}}
    return {**shared, "objective.loss": LOSSES[arm]}


def begun(seed: int, folder: Path) -> list[dict[str, Any]]:
    """The evaluations of a half-trained model; a rate that stays the same makes its updates those of the longer run."""
    found = ran(RECIPES / "addition.toml", folder / f"longer-{seed}", {"seed": seed, "steps": AT_MOST, **OFTEN})
    step = next(line["step"] for line in found if line["metrics"][RIGHT[START]] >= BEGUN)
    return ran(RECIPES / "addition.toml", folder / f"{START}-{seed}", {"seed": seed, "steps": step, **OFTEN})


def cell(arm: str, seed: int, folder: Path, minutes: float) -> dict[str, Any]:
    """What an arm reached, by its last evaluation."""
    start = folder / f"{START}-{seed}"
    if arm == START:
        found = begun(seed, folder)
    else:
        out = folder / f"{arm}-{seed}-{minutes:g}"
        found = ran(RECIPES / "policy.toml", out, arm_of(arm, seed, start, minutes))
        shutil.rmtree(out / "checkpoints", ignore_errors=True)
    metric, last = RIGHT.get(arm, "exact"), found[-1]
    curve = [[line["step"], round(line["metrics"][metric], 4)] for line in found]
    print(f"seed {seed}, {arm}: {curve[-1][1]:.1%} right after {last['step']:,} updates", flush=True)
    return {"arm": arm, "seed": seed, "right": curve[-1][1], "updates": last["step"], "curve": curve}


def summed(cells: Sequence[Mapping[str, Any]], minutes: float) -> dict[str, Any]:
    """The mean of every arm over seeds, its interval, and the minutes by which each seed had `WANTED`, None where never."""
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(each["arm"] for each in cells):
        own = sorted((each for each in cells if each["arm"] == arm), key=lambda each: int(each["seed"]))
        told = interval([each["right"] for each in own]) if len(own) > 1 else None
        first = [next((step for step, right in each["curve"] if right >= WANTED), None) for each in own]
        found[arm] = {
            "right": round(sum(each["right"] for each in own) / len(own), 4),
            "interval": told and [round(told.low, 4), round(told.high, 4)],
            "seeds": [each["right"] for each in own],
            "updates": [each["updates"] for each in own],
            "minutes to 90 %": [
                None if step is None else round(minutes * step / each["updates"], 2)
                for step, each in zip(first, own, strict=True)
            ],
        }
    return found


def kept(output: Path, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of a result that was asked the same."""
    record = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    return list(record.get("cells", [])) if record.get("asked") == asked else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of a processor, for each arm and seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "rewards", help="of models")
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    recipes = {name: (RECIPES / f"{name}.toml").read_text(encoding="utf-8") for name in ("addition", "policy")}
    asked = {"minutes": given.minutes, "recipes": recipes}
    cells = kept(given.output, asked)
    for arm in (START, *given.arms):
        for seed in given.seeds:
            if any((each["arm"], each["seed"]) == (arm, seed) for each in cells):
                continue
            cells.append(cell(arm, seed, given.folder, given.minutes))
            record = {
                "date": date.today().isoformat(), "machine": machine(), "asked": asked, "arms": summed(cells, given.minutes),
                "cells": cells,
            }  # fmt: skip
            given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
