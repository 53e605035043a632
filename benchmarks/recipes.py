"""Trains every recipe for a fixed number of updates: what each objective reaches beside its stated baseline, with its curve.

    python -m benchmarks.recipes              # all of them, two at a time with a thread each: an hour or two
    python -m benchmarks.recipes ul2 masked   # these alone; the others' results stay

A recipe's own budget is in minutes; here it is in updates, so that the result depends on neither the machine's speed nor its
load. Models that others start from or learn from are trained first. Writes benchmarks/results/recipes.json, which
`docs/make_training.py` turns into the table and the picture of docs/reference/recipes.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from rich.console import Console

from anyformer.training import Run, load_run, train
from anyformer.training.journal import read_metrics

RECIPES = Path(__file__).parents[1] / "recipes"
RESULT = RESULTS / "recipes.json"
UPDATES = 600
OTHERS = {
    **dict.fromkeys(("images", "vectors"), 3000),  # a tenth of a second each, or less
    **dict.fromkeys(("captions", "image-questions"), 204),
    "image-features": 300,
    **dict.fromkeys(
        ("classification", "contrastive", "spans", "token-labels", "dpo", "kto", "orpo", "reward", "simpo", "step-rewards"), 300
    ),  # seconds each
    **dict.fromkeys(("crosscoder", "sae", "transcoder"), 24),  # whose evaluations run the source four times
    "addition": 400,
    "policy": 400,
    "sound-to-text": 300,
    "speech-to-text": 300,
    "segmentation": 300,
}
"""Recipes with other numbers of updates."""
COUNTED = frozenset({"addition"})
"""Recipes in updates themselves: what they leave to learn must not depend on the machine's speed."""
FIRST = {"addition": "addition", "stdlib": "teacher", "instruction": "answers"}
"""Recipes that others need, and the directory of runs/ in which those look for them."""
NEED = {
    **dict.fromkeys(("crosscoder", "distillation", "sae", "transcoder"), "stdlib"),
    **dict.fromkeys(("dpo", "simpo"), "instruction"),
    "policy": "addition",
}
LOOKS = 12
"""Evaluations on the way."""


def shortened(name: str) -> Run:
    """The recipe with a number of updates in place of minutes."""
    steps = OTHERS.get(name, UPDATES)
    changes = {"minutes": None, "steps": steps, "evaluation.every": steps // LOOKS, "checkpoints.every": steps}
    return load_run(RECIPES / f"{name}.toml", changes)


def digest(name: str) -> str:
    """SHA-256 of the recipe's file, which tells a result of an older one."""
    return hashlib.sha256((RECIPES / f"{name}.toml").read_bytes()).hexdigest()


def attempt(name: str, folder: str) -> dict[str, Any]:
    """One recipe, trained in `folder`: what it reaches, its baseline, and its losses on the way."""
    torch.set_num_threads(1)
    os.chdir(folder)
    directory, run, began = Path("runs") / FIRST.get(name, name), shortened(name), time.monotonic()
    trained = train(run, directory, console=Console(quiet=True))
    seconds = time.monotonic() - began
    looks = [row for row in read_metrics(directory) if row["kind"] == "validation"]
    assert trained.validation is not None
    assert trained.baseline is not None
    return {
        "recipe": name,
        "digest": digest(name),
        "objective": run.objective.kind,
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "updates": trained.step,
        "seconds": round(seconds),
        "loss": round(trained.validation.loss, 4),
        "baseline": {"model": trained.baseline[0], "loss": round(trained.baseline[1], 4)},
        "metrics": {metric: round(value, 4) for metric, value in trained.validation.metrics.items()},
        "curve": [[row["step"], round(row["loss"], 4)] for row in looks],
    }


def main() -> None:
    """Train them, and write what they reach after each."""
    names = sorted(path.stem for path in RECIPES.glob("*.toml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", choices=[*names, []], help="by default all", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2, help="recipes at a time, with a thread each (default 2)")
    arguments = parser.parse_args()
    wanted = set(arguments.recipes or names)
    wanted |= {NEED[name] for name in wanted if name in NEED}
    results = {each["recipe"]: each for each in (json.loads(RESULT.read_text())["results"] if RESULT.exists() else ())}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for part in (sorted(wanted - set(NEED), key=lambda name: name not in FIRST), sorted(wanted & set(NEED))):
            for done in as_completed([pool.submit(attempt, name, folder) for name in part]):
                one = done.result()
                results[one["recipe"]] = one
                print(f"{one['recipe']}: {one['loss']} against {one['baseline']['loss']}, {one['seconds']} s", flush=True)
                write([results[name] for name in names if name in results])


def write(results: list[dict[str, Any]]) -> None:
    """Put the results so far into the committed file."""
    versions = {name: version(name) for name in ("anyformer", "torch", "tokenizers")}
    record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions, "results": results}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
