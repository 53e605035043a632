"""nanoGPT's published CPU configuration, and a Llama-style model of equal size beside it, in the same tokens.

    python -m benchmarks.nanogpt path/to/tinyshakespeare.txt

Characters, the first 90 % for training; 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps, no dropout. The
published validation loss is 1.88. Here it is the mean over the whole validation split, for three seeds, all reported.
Writes benchmarks/results/nanogpt.json and nanogpt.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare import RESULTS, machine
from matplotlib.figure import Figure
from rich.console import Console

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.data import Characters, Data
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.training import AdamW, Checkpoints, Cosine, Evaluation, Run, train
from anyformer.training.journal import read_metrics

PUBLISHED = 1.88
SEEDS = (0, 1, 2)
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
        data=Data(paths=(text,), tokenizer=Characters(), validation=0.1, split="tail", sampling="random"),
        optimiser=AdamW(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        schedule=Cosine(warmup=100, floor=0.1),
        evaluation=Evaluation(every=250, batches=40, baseline=False),
        checkpoints=Checkpoints(every=2000, keep=1),
        plan=Plan(precision=precision, compile="off"),
        architecture=model,
    )


def main() -> None:
    """Train every model with every seed, print and write what they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tinyshakespeare.txt")
    arguments = parser.parse_args()
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    results: dict[str, Any] = {}
    for (name, model), colour in zip(MODELS.items(), ("tab:blue", "tab:orange"), strict=True):
        losses, bits = [], []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                trained = train(run_of(model, arguments.text, seed), Path(folder) / "run", console=Console(quiet=True))
                looks = [row for row in read_metrics(Path(folder) / "run") if row["kind"] == "validation"]
            assert trained.validation is not None
            losses.append(round(trained.validation.loss, 4))
            bits.append(round(trained.validation.bits_per_byte or 0.0, 4))
            label = f"{name}: {', '.join(map(str, losses))}" if seed == SEEDS[-1] else None
            axes.plot([r["step"] for r in looks], [r["loss"] for r in looks], "o-", color=colour, markersize=3, label=label)
            print(f"{name}, seed {seed}: validation loss {losses[-1]} over {trained.validation.tokens:,} tokens", flush=True)
        parameters = sum(parameter.numel() for parameter in trained.model.parameters())
        results[name] = {
            "parameters": parameters,
            "validation_losses": dict(zip(map(str, SEEDS), losses, strict=True)),
            "mean": round(statistics.mean(losses), 4),
            "bits_per_byte": bits,
        }
    axes.axhline(PUBLISHED, color="grey", linestyle="--", linewidth=1, label=f"published, {PUBLISHED}")
    axes.set_xlabel("step (768 tokens each)")
    axes.set_ylabel("validation loss, nats per character")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / "nanogpt.png")
    versions = {name: version(name) for name in ("anyformer", "torch")}
    record = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": versions,
        "published": PUBLISHED,
        "results": results,
    }
    (RESULTS / "nanogpt.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
