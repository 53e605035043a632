"""Training speed of anyformer on the CPU, in the shape and with the step of `peers/train.py`.

    python -m benchmarks.ours_train --peer anyformer --compile --steps 5 --json

The gate: the first losses of the measured step must be those of the eager fp32 step on the same weights and batch.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import torch
from benchmarks.protocol import Worker, options, run, versions

from anyformer.catalogue.llama import llama
from anyformer.model import build as build_model
from anyformer.objectives import CausalObjective, Examples
from anyformer.plan import Plan
from anyformer.training import AdamW
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.optimiser import build_optimiser
from anyformer.training.precision import deterministic
from anyformer.training.step import loss_function, update

SHAPE: dict[str, int] = {"width": 384, "depth": 6, "heads": 6, "kv_heads": 6, "ffn": 1024, "vocab": 4096}
BATCH, LENGTH, GATE = 16, 256, 3


class Trainer:
    """One model with its optimiser and fixed batch; `step` is the package's own update."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.model = build_model(llama(**SHAPE, tied=False), plan, seed=seed).train()
        self.optimiser = build_optimiser(AdamW(learning_rate=3e-4), self.model)
        self.loss = loss_function(self.model, CausalObjective(), plan)
        tokens = torch.randint(SHAPE["vocab"], (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(seed))
        self.batch = Examples(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), None, torch.arange(BATCH))
        self.losses: list[float] = []

    def step(self) -> float:
        begin = time.perf_counter()
        with deterministic():
            outcome = update(
                self.loss, self.model, self.optimiser, [self.batch],
                tokens=BATCH * LENGTH, seed=0, step=len(self.losses), rate=3e-4, clip=1.0,
            )  # fmt: skip
        self.losses.append(outcome.loss)
        return time.perf_counter() - begin


def build(arguments: argparse.Namespace) -> Worker:
    """The trainer, once its first losses have been held against fp32."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    exact = Trainer(Plan(precision="fp32", attention="sdpa", compile="off"), arguments.seed)
    for _ in range(GATE):
        exact.step()
    trainer = Trainer(Plan(precision=arguments.precision, compile="on" if arguments.compile else "off"), arguments.seed)

    def outcome() -> dict[str, Any]:
        gap = max(abs(a - b) for a, b in zip(trainer.losses[:GATE], exact.losses, strict=False))
        if not gap < 0.01 or not all(math.isfinite(loss) for loss in trainer.losses):
            raise SystemExit(f"the losses {trainer.losses[:GATE]} are not those of fp32, {exact.losses}")
        return {"first_losses": [round(loss, 4) for loss in trainer.losses[:3]], "last_loss": round(trainer.losses[-1], 4)}

    facts: dict[str, Any] = {
        "task": "train",
        "mode": "compiled" if arguments.compile else "eager",
        "precision": arguments.precision,
        "shape": {**SHAPE, "batch": BATCH, "length": LENGTH},
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", "anyformer"),
    }
    return Worker(trainer.step, BATCH * LENGTH, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("training speed of anyformer on the CPU", ["anyformer"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
