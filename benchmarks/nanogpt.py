"""nanoGPT's published CPU configuration, and a Llama-style model of equal size beside it, in the same tokens.

    python -m benchmarks.nanogpt path/to/tinyshakespeare.txt

Characters, the first 90 % for training; 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps, no dropout. The
published validation loss is 1.88. Here it is the mean over the whole validation split, for three seeds, all reported. The
peak learning rate is 3e-3, where nanoGPT's file says 1e-3. Writes benchmarks/results/nanogpt.json and nanogpt.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from matplotlib.figure import Figure
from rich.console import Console

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.data import Characters, Text
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.training import AdamW, Checkpoints, Cosine, Evaluation, Run, train
from anyformer.training.journal import read_metrics

PUBLISHED = 1.88
SEEDS = (0, 1, 2)
LEARNING_RATE = 3e-3
MODELS: dict[str, Architecture] = {
    "nanoGPT": architecture("nanogpt-cpu"),
    # The gated feed-forward of 8/3 D has the 8 D^2 weights of nanoGPT's 4 D; rotary positions need no table.
    "Llama-style": llama(width=128, depth=4, heads=4, kv_heads=4, ffn=344, vocab=66, tied=True),
}


def run_of(model: Architecture, text: str, seed: int, precision: Any = "fp32") -> Run:
    """nanoGPT's settings for its small character model."""
    return Run(
        seed=seed,
        steps=2000,
        batch=12,
        length=64,
        clip=1.0,
        data=Text(paths=(text,), tokenizer=Characters(), validation=0.1, split="tail", sampling="random"),
        optimiser=AdamW(learning_rate=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.1),
        schedule=Cosine(warmup=100, floor=0.1),
        evaluation=Evaluation(every=250, batches=40, baseline=False),
        checkpoints=Checkpoints(every=2000, keep=1),
        plan=Plan(precision=precision, compile="off"),
        architecture=model,
    )


def attempt(job: tuple[str, str, int]) -> dict[str, Any]:
    """One model with one seed: what it reaches, and its looks at the validation split on the way."""
    name, text, seed = job
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(run_of(MODELS[name], text, seed), Path(folder) / "run", console=Console(quiet=True))
        looks = [row for row in read_metrics(Path(folder) / "run") if row["kind"] == "validation"]
    assert trained.validation is not None
    print(f"{name}, seed {seed}: {trained.validation.loss:.4f} over {trained.validation.seen:,} tokens", flush=True)
    return {
        "model": name,
        "seed": seed,
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "validation_loss": round(trained.validation.loss, 4),
        "steps": [row["step"] for row in looks],
        "losses": [round(row["loss"], 4) for row in looks],
    }


def main() -> None:
    """Train every model with every seed, two at a time, print and write what they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tinyshakespeare.txt")
    arguments = parser.parse_args()
    jobs = [(name, arguments.text, seed) for seed in SEEDS for name in MODELS]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(attempt, jobs))
    versions = {name: version(name) for name in ("anyformer", "torch")}
    means = {n: round(statistics.mean(r["validation_loss"] for r in results if r["model"] == n), 4) for n in MODELS}
    record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions, "published": PUBLISHED}
    record |= {"learning_rate": LEARNING_RATE, "means": means, "results": results}
    (RESULTS / "nanogpt.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(results, means)


def draw(results: list[dict[str, Any]], means: dict[str, float]) -> None:
    """Validation loss against steps, a line for each seed."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for name, colour in zip(MODELS, ("tab:blue", "tab:orange"), strict=True):
        for result in (r for r in results if r["model"] == name):
            label = f"{name}, mean {means[name]}" if result["seed"] == SEEDS[0] else None
            axes.plot(result["steps"], result["losses"], "o-", color=colour, markersize=3, linewidth=1, label=label)
    axes.axhline(PUBLISHED, color="grey", linestyle="--", linewidth=1, label=f"published, {PUBLISHED}")
    axes.set_xlabel("step (768 characters each)")
    axes.set_ylabel("validation loss, nats per character")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / "nanogpt.png")


if __name__ == "__main__":
    main()
