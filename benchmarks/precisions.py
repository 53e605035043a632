"""The same small model trained in every precision from the same weights, data and order: loss curves beside fp32's.

    python -m benchmarks.precisions [--updates 300] [--only NAME ...]

A Llama of 2 layers of width 64 on bytes of python-stdlib, 8 x 64 tokens an update, three seeds; two processes of one thread
each. Narrow products are chosen from a size of 64 on, so that every matrix of a layer has them. On a CPU, so fp8, mxfp8 and
nvfp4 are emulated; TF32 exists on GPUs alone. Nothing is timed. Writes benchmarks/results/precisions.json: for each precision
and seed the loss of every tenth update and the validation loss, and per precision the mean difference from bf16 with the same
seed and its greatest value. Results that --only leaves out stay as they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from rich.console import Console

from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.plan import Plan
from anyformer.precision import Bf16, Fp8, Fp16, Fp32, Mxfp8, Nvfp4, Precision, PureBf16
from anyformer.training import AdamW, Checkpoints, Cosine, Evaluation, Run, train
from anyformer.training.journal import read_metrics

SEEDS = (0, 1, 2)
LEAST = 64
PRECISIONS: Mapping[str, Precision] = {
    "fp32": Fp32(),
    "bf16": Bf16(),
    "pure_bf16, masters": PureBf16(),
    "pure_bf16, stochastic": PureBf16(rounding="stochastic"),
    "fp16": Fp16(),
    "fp8, tensor": Fp8(least=LEAST),
    "fp8, channel": Fp8(least=LEAST, scaling="channel"),
    "fp8, running": Fp8(least=LEAST, scaling="running"),
    "mxfp8": Mxfp8(least=LEAST),
    "mxfp8, scales by OCP's rule": Mxfp8(least=LEAST, scale="ocp"),
    "nvfp4": Nvfp4(least=LEAST),
}
BESIDE = "bf16"


def run_of(precision: Precision, seed: int, updates: int) -> Run:
    """One run; all but precision and seed is the same."""
    return Run(
        seed=seed,
        steps=updates,
        batch=8,
        length=64,
        data=Text(paths=("python-stdlib",), tokenizer=Bytes(), validation=0.01),
        optimiser=AdamW(learning_rate=3e-3),
        schedule=Cosine(warmup=30, floor=0.1),
        evaluation=Evaluation(every=updates, final_tokens=16_384, baseline=False),
        checkpoints=Checkpoints(every=updates, keep=1),
        plan=Plan(precision=precision, compile="off"),
        architecture=llama(width=64, depth=2, heads=4, kv_heads=4, ffn=192, vocab=257, tied=False),
    )


def attempt(job: tuple[str, int, int]) -> dict[str, Any]:
    """One precision with one seed."""
    name, seed, updates = job
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(run_of(PRECISIONS[name], seed, updates), Path(folder) / "run", console=Console(quiet=True))
        rows = [row for row in read_metrics(Path(folder) / "run") if row["kind"] == "train"]
    assert trained.validation is not None
    print(f"{name}, seed {seed}: {trained.validation.loss:.4f}", flush=True)
    return {
        "precision": name,
        "seed": seed,
        "validation_loss": round(trained.validation.loss, 5),
        "skipped": sum(row.get("skipped", False) for row in rows),
        "losses": [round(row["loss"], 4) for row in rows[9::10]],
    }


def distances(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each precision: mean validation loss, and its difference from `BESIDE` with the same seed, mean and largest."""
    reached = {(each["precision"], each["seed"]): each["validation_loss"] for each in results}
    found = {}
    for name in PRECISIONS:
        seeds = [seed for seed in SEEDS if (name, seed) in reached and (BESIDE, seed) in reached]
        if seeds:
            apart = [reached[name, seed] - reached[BESIDE, seed] for seed in seeds]
            found[name] = {
                "mean_loss": round(statistics.mean(reached[name, seed] for seed in seeds), 4),
                "mean_difference": round(statistics.mean(apart), 4),
                "largest_difference": round(max(map(abs, apart)), 4),
            }
    return found


def main() -> None:
    """Train in every precision with every seed, two at a time, and write what they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    arguments = parser.parse_args()
    jobs = [(name, seed, arguments.updates) for seed in SEEDS for name in arguments.only]
    versions = {name: version(name) for name in ("torch", "numpy")}
    known = json.loads((RESULTS / "precisions.json").read_text())["results"] if arguments.only != list(PRECISIONS) else []
    results = [each for each in known if each["precision"] not in arguments.only]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(attempt, job) for job in jobs]):
            results.append(done.result())
            order = sorted(results, key=lambda each: (list(PRECISIONS).index(each["precision"]), each["seed"]))
            record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions}
            record |= {"updates": arguments.updates, "beside": BESIDE, "distances": distances(order), "results": order}
            (RESULTS / "precisions.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
