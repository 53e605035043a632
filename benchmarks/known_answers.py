"""Three answers that careful papers found, asked again in minutes: which architecture learns which generated task.

    python -m benchmarks.known_answers                  # all three, two seeds each: about twenty minutes on one core
    python -m benchmarks.known_answers parity --seeds 3

- recall: attention recalls what it was told; linear attention of the same width does not, the less the more pairs there are
  (Arora et al. 2023, arXiv 2312.04927). Both have a gated short convolution in their first layer, as there.
- parity: the delta rule with beta up to 2 keeps the parity far beyond the trained length; with beta up to 1, and attention, do
  not (Grazzi et al. 2024, arXiv 2411.12537).
- induction: two layers of attention learn it, one does not (Olsson et al. 2022, arXiv 2209.11895).

Each arm is an ordinary run with the same data, updates and optimiser; it is asked held-out sequences by `anyformer.probing`.
Writes benchmarks/results/known_answers.json, of which docs/make_tasks.py makes a table of docs/tasks.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from rich.console import Console

from anyformer.evaluation import open_subject
from anyformer.model import Architecture, decoder_only
from anyformer.objectives import TaskObjective
from anyformer.parts import (
    Attention,
    DeltaAttention,
    EluPlusOne,
    Embedding,
    FeedForward,
    GatedConvolution,
    Head,
    LinearAttention,
    RMSNorm,
    Rotary,
    ScalarDecay,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.probing import Probed, probe, question
from anyformer.tasks import MQAR, Induction, Parity, TaskData
from anyformer.training import Checkpoints, Evaluation, Run, train
from anyformer.tuning import AdamW

RESULT = RESULTS / "known_answers.json"
WIDTH = 32
SEQUENCES = 256


@dataclass(frozen=True)
class Arm:
    """A run of an answer, and the lengths at which its model is asked."""

    run: Run
    lengths: tuple[int, ...]


def decoder(mixers: list[Sublayer], data: TaskData) -> Architecture:
    """A decoder with a layer for each mixer."""
    norm = RMSNorm()
    blocks = [pre_norm(norm, mixer, FeedForward(width=4 * WIDTH, activation="gelu")) for mixer in mixers]
    return decoder_only(Embedding(vocab=len(data.symbols) + 2), WIDTH, blocks, final_norm=norm, head=Head())


def arm(
    mixers: list[Sublayer], data: TaskData, length: int, steps: int, lengths: tuple[int, ...] = (), rate: float = 3e-3
) -> Arm:
    """An arm whose other settings are those of all."""
    run = Run(
        steps=steps, batch=64, length=length, data=data, objective=TaskObjective(), architecture=decoder(mixers, data),
        optimiser=AdamW(learning_rate=3e-3, weight_decay=0.0), plan=Plan(precision="fp32", compile="off"),
        evaluation=Evaluation(every=steps, batches=1, final_tokens=1024, baseline=False),
        checkpoints=Checkpoints(every=steps),
    )  # fmt: skip
    return Arm(run, lengths or (length,))


def recall(steps: int = 1500) -> Mapping[str, Arm]:
    """Attention and linear attention, with few pairs and with many."""
    attention, linear = (
        Attention(heads=2, kv_heads=2, place=Rotary()),
        LinearAttention(heads=2, feature_map=EluPlusOne(), eps=1e-6),
    )
    found = {}
    for pairs, length in ((4, 16), (24, 72)):
        data = TaskData(task=MQAR(pairs=pairs, keys=32, values=32))
        for name, mixer in (("attention", attention), ("linear attention", linear)):
            found[f"{name}, {pairs} pairs"] = arm([GatedConvolution(), mixer], data, length, steps)
    return found


def parity(steps: int = 1000, length: int = 32) -> Mapping[str, Arm]:
    """The gated delta rule with beta up to 2 and up to 1, and attention."""
    data = TaskData(task=Parity(), shortest=4)
    delta = DeltaAttention(heads=2, key_width=8, decay=ScalarDecay(), norm=RMSNorm())
    arms: dict[str, list[Sublayer]] = {
        "gated delta, beta up to 2": [delta.but(beta_scale=2.0)] * 2,
        "gated delta, beta up to 1": [delta] * 2,
        "attention": [Attention(heads=2, kv_heads=2, place=Rotary())] * 2,
    }
    lengths = tuple(length * factor for factor in (1, 2, 4, 8))
    return {name: arm(mixers, data, length, steps, lengths) for name, mixers in arms.items()}


def induction(steps: int = 1500) -> Mapping[str, Arm]:
    """One layer of attention, and two."""
    attention = Attention(heads=2, kv_heads=2, place=Rotary())
    data = TaskData(task=Induction(letters=32))
    return {f"{depth} layer{'s' * (depth > 1)}": arm([attention] * depth, data, 32, steps) for depth in (1, 2)}


ANSWERS = {each.__name__: each for each in (recall, parity, induction)}


def asked(arm: Arm, seed: int, folder: Path) -> Probed:
    """The arm, trained with a seed, and what it reaches."""
    train(arm.run.but(seed=seed), folder, console=Console(quiet=True))
    subject = open_subject(folder)
    return probe(subject.model, question(subject), arm.lengths, SEQUENCES)


def attempt(answer: str, name: str, arm: Arm, seed: int) -> dict[str, Any]:
    """A line of the result."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = asked(arm, seed, Path(folder) / "run")
    levels = [
        {"length": level.length, "accuracy": round(level.targets.accuracy, 4), "chance": round(level.targets.chance, 4)}
        for level in found.levels
    ]
    return {
        "answer": answer, "arm": name, "seed": seed, "updates": arm.run.steps, "trained_length": arm.run.length,
        "levels": levels, "seconds": round(time.monotonic() - began),
    }  # fmt: skip


def main() -> None:
    """Ask, and write what came after each arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", nargs="*", choices=[*ANSWERS, []], help="by default all", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each arm (default 2)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.answers or list(ANSWERS)
    old = json.loads(RESULT.read_text(encoding="utf-8"))["results"] if RESULT.exists() else []
    results = [row for row in old if row["answer"] not in names]
    for answer in names:
        for name, one in ANSWERS[answer]().items():
            for seed in range(arguments.seeds):
                results.append(attempt(answer, name, one, seed))
                print(json.dumps(results[-1]), flush=True)
                facts = {"date": str(date.today()), "command": "python -m benchmarks.known_answers", "machine": machine()}
                order = sorted(results, key=lambda row: list(ANSWERS).index(row["answer"]))
                RESULT.write_text(json.dumps({**facts, "results": order}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
