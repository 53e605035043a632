"""Training speed of anyformer on the CPU, of a shape of `cases.py`, with the step of `peers/train.py`.

    python -m benchmarks.ours_train --peer anyformer --shape encoder --compile --steps 5 --json

The gate: the first losses of the measured step must be those of the eager fp32 step on the same weights and batch, which
another process computes, so that its memory is not counted here.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch
from benchmarks.batches import fixed_batch
from benchmarks.cases import TRAININGS, Training
from benchmarks.ours_models import trained
from benchmarks.protocol import Worker, options, run, versions

from anyformer.costs.allocated import peak_above
from anyformer.costs.peak import peak_memory
from anyformer.model.transformer import build as build_model
from anyformer.objectives import CausalObjective, Examples, MaskedObjective, Objective, Seq2SeqObjective, penalised
from anyformer.plan import Plan
from anyformer.training import AdamW
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.attention_kernel import with_kernel
from anyformer.training.memory_meter import state_bytes
from anyformer.training.optimiser import build_optimiser
from anyformer.training.passes import MicroBatches, MicroBatchLoss, OneByOne
from anyformer.training.precision import deterministic
from anyformer.training.step import Updates
from anyformer.training.trainee import Trainee

GATE = 3
"""Steps whose losses are compared."""
RATE = 3e-4
OBJECTIVES: Mapping[str, Objective] = {
    "llama": CausalObjective(),
    "gpt2": CausalObjective(),
    "bert": MaskedObjective(),
    "t5": Seq2SeqObjective(),
}


class Trainer:
    """One model with its optimiser and fixed batch; `step` is the package's own update."""

    def __init__(self, plan: Plan, seed: int, sizes: Training = TRAININGS["small"]) -> None:
        self.model = build_model(trained(sizes), plan, seed=seed).train()
        self.optimiser = build_optimiser(AdamW(learning_rate=RATE), self.model)
        objective = OBJECTIVES[sizes.kind]
        self.passes = OneByOne(MicroBatchLoss(self.model, objective, partial(penalised, objective), plan))
        self.updates = Updates(self.passes, (Trainee(self.model, self.optimiser),), clip=1.0)
        given = fixed_batch(sizes, seed)
        self.batch = Examples(given.tokens, given.targets, None, torch.arange(sizes.batch), given.decoder)
        self.losses: list[float] = []

    def step(self) -> float:
        begin = time.perf_counter()
        with deterministic():
            batch = MicroBatches([self.batch], self.batch.count, step=len(self.losses))
            outcome = self.updates.update(batch, RATE)
        self.losses.append(outcome.loss)
        return time.perf_counter() - begin


def plain(sizes: Training, seed: int, precision: str, threads: int | None) -> tuple[list[float], int]:
    """The first losses in fp32, and in `precision` the bytes of all tensors at the peak of a step; both in eager mode."""
    if threads:
        torch.set_num_threads(threads)
    exact = Trainer(Plan(precision="fp32", attention="sdpa", compile="off"), seed, sizes)
    for _ in range(GATE):
        exact.step()
    losses = exact.losses
    del exact
    eager = Trainer(Plan.parse({"precision": precision, "compile": "off"}), seed, sizes)
    eager.step()
    held = state_bytes(eager.model, eager.optimiser)
    return losses, held + peak_above(eager.step, torch.device("cpu"))


def elsewhere(*given: Any) -> tuple[list[float], int]:
    """`plain` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(plain, *given).result()


def build(arguments: argparse.Namespace) -> Worker:
    """The trainer, whose first losses are held against fp32."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    sizes = TRAININGS[arguments.shape].tiny if arguments.tiny else TRAININGS[arguments.shape]
    exact, tensors = elsewhere(sizes, arguments.seed, arguments.precision, arguments.threads)
    keep_freed_memory()
    plan = Plan.parse({"precision": arguments.precision, "compile": "on" if arguments.compile else "off"})
    plan, _ = with_kernel(plan, torch.device("cpu"), long=True)
    trainer = Trainer(plan, arguments.seed, sizes)
    source = sizes.length if trainer.model.architecture.two_inputs else None
    foretold = peak_memory(
        trainer.model.architecture, batch=sizes.batch, length=sizes.length, source_length=source, plan=plan
    )  # fmt: skip

    def outcome() -> dict[str, Any]:
        gap = max(abs(a - b) for a, b in zip(trainer.losses[:GATE], exact, strict=False))
        if not gap < 0.01 or not all(math.isfinite(loss) for loss in trainer.losses):
            raise SystemExit(f"the losses {trainer.losses[:GATE]} are not those of fp32, {exact}")
        return {"first_losses": [round(loss, 4) for loss in trainer.losses[:3]], "last_loss": round(trainer.losses[-1], 4)}

    facts: dict[str, Any] = {
        "task": "train",
        "mode": "compiled" if arguments.compile else "eager",
        "precision": arguments.precision,
        "shape": {**sizes.data(), "name": arguments.shape},
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "foretold_bytes": foretold.total,
        **({} if arguments.compile else {"tensor_bytes": tensors}),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", "anyformer"),
    }
    return Worker(trainer.step, sizes.tokens, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("training speed of anyformer on the CPU", ["anyformer"])
    parser.add_argument("--shape", choices=tuple(TRAININGS), default="small")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--tiny", action="store_true", help="a small model of the same kind, for a rehearsal")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
