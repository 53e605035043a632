"""What a running training holds, and the acts that the loop is made of: update, evaluate, save, restore."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anyformer import checkpoint
from anyformer.data import Batches, Corpus, prepare
from anyformer.describe import DescriptionError
from anyformer.model import Transformer, build
from anyformer.objectives import Examples
from anyformer.parts.noise import Noise
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.evaluate import Evaluated, evaluate, to_device
from anyformer.training.optimiser import build_optimiser, load_state_tensors, state_tensors
from anyformer.training.precision import Machine, deterministic
from anyformer.training.run import Run
from anyformer.training.step import LossFunction, Outcome, loss_function, update

BASELINE_TOKENS = 20_000_000
"""At most so many of the tokens trained on feed the bigram baseline."""


@dataclass(frozen=True)
class Work:
    """A run and everything built from it; the weights and moments inside change as it trains."""

    run: Run
    corpus: Corpus
    model: Transformer
    optimiser: torch.optim.Optimizer
    loss: LossFunction
    batches: Batches

    @staticmethod
    def start(run: Run, corpus: Corpus, machine: Machine) -> Work:
        keep_freed_memory()
        model = build(run.architecture, run.plan, machine.device, seed=run.seed).train()
        return Work(
            run,
            corpus,
            model,
            build_optimiser(run.optimiser, model),
            loss_function(model, run.objective, run.plan),
            Batches(corpus.train, run.length, run.batch, run.seed, run.data.isolate, run.data.sampling),
        )

    def fitted(self, started: float) -> Work:
        """The same work with as many updates as the run's minutes allow, counted from `started`.

        A few gradients are timed and thrown away, so that no weight changes.
        """
        assert self.run.minutes is not None
        pieces, tokens = self.micro_batches(0)

        def gradients() -> float:
            start = time.monotonic()
            for examples in pieces:
                summed, _ = self.loss(examples, Noise.at(self.run.seed, 0, examples.rows))
                (summed / tokens).backward()  # type: ignore[no-untyped-call]
            self.optimiser.zero_grad(set_to_none=True)
            return time.monotonic() - start

        with deterministic():
            gradients()
            seconds = min(gradients() for _ in range(3))
        # What is not an update: evaluations, checkpoints, the final look at the whole split and the sample take about a tenth.
        left = self.run.minutes * 60 - (time.monotonic() - started)
        return replace(self, run=self.run.but(steps=max(1, int(0.9 * left / seconds)), minutes=None))

    def micro_batches(self, step: int) -> tuple[list[Examples], int]:
        """The pieces of the global batch of `step`, and how many valid tokens it has."""
        whole = self.batches.at(step)
        size = self.run.batch // self.run.accumulation
        device = self.model.device
        pieces = [to_device(whole.slice(at, at + size), device) for at in range(0, self.run.batch, size)]
        return pieces, whole.valid

    def update(self, step: int) -> tuple[Outcome, int]:
        """Update number `step` (from 0): what it gave, and how many valid tokens it saw."""
        run = self.run
        pieces, tokens = self.micro_batches(step)
        rate = run.learning_rate(step)
        outcome = update(
            self.loss, self.model, self.optimiser, pieces, tokens=tokens, seed=run.seed, step=step, rate=rate, clip=run.clip
        )
        return outcome, tokens

    def evaluate(self, batches: int | None) -> Evaluated:
        """The loss over the validation split, or over its first `batches` batches."""
        run = self.run
        return evaluate(
            self.model, run.objective, self.corpus.validation, run.plan,
            length=run.length, batch=run.batch, isolate=run.data.isolate, batches=batches,
        )  # fmt: skip

    def save(self, directory: Path, step: int, validation: float | None) -> None:
        """A checkpoint after `step` updates; old ones beyond those to keep go."""
        checkpoint.save(
            self.model,
            checkpoint.directory_of(directory, step),
            tokenizer=self.corpus.tokenizer,
            extra={"optimiser": state_tensors(self.optimiser, self.model)},
            facts={"step": step, "validation_loss": validation, "data": self.corpus.digest},
        )
        checkpoint.prune(directory, self.run.checkpoints.keep)

    def restore(self, found: Path) -> int:
        """Take weights and moments from a verified checkpoint; returns its step."""
        facts = checkpoint.read_manifest(found).facts
        if facts["data"] != self.corpus.digest:
            raise DescriptionError(
                f"{found}: was trained on other data than is found now "
                f"(digest {facts['data'][:12]}, now {self.corpus.digest[:12]}); restore the data, or start a new run"
            )
        checkpoint.restore(self.model, found)
        load_state_tensors(self.optimiser, self.model, checkpoint.read(found / "optimiser.safetensors"))
        return int(facts["step"])

    def seen(self) -> NDArray[np.int64]:
        """The tokens that the run trained on, so that a baseline learns from no more and no less."""
        run, split = self.run, self.corpus.train
        assert run.steps is not None
        if run.steps * run.batch * run.length >= min(len(split), BASELINE_TOKENS):
            return split.tokens[: min(len(split), BASELINE_TOKENS)]
        return np.concatenate([self.batches.at(step).tokens.ravel() for step in range(run.steps)])


def corpus_of(run: Run) -> Corpus:
    """The run's data, prepared; refuses a tokenizer with more tokens than the embedding has rows."""
    corpus = prepare(run.data)
    vocab = run.architecture.embedding.symbols
    assert vocab is not None, "a run reads tokens"
    if corpus.tokenizer.vocab_size > vocab:
        raise DescriptionError(
            f"the tokenizer has {corpus.tokenizer.vocab_size} tokens and the embedding {vocab} rows; "
            f"set embedding.vocab={corpus.tokenizer.vocab_size}"
        )
    return corpus
