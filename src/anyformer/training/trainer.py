"""A run with its data, model and optimiser, and the steps of the loop: update, evaluate, save, restore."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anyformer import checkpoint
from anyformer.data import Batches, Corpus, DataError, prepare, spread
from anyformer.describe import DescriptionError, to_json
from anyformer.model import Transformer, build
from anyformer.model.adapters import plain
from anyformer.objectives import Examples
from anyformer.parts.call.noise import Noise
from anyformer.training import budget
from anyformer.training.adapting import Still, tune
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.average import Running
from anyformer.training.averaging import Averages, averaged, none, restore_trained, trained_tensors
from anyformer.training.budget import Durations
from anyformer.training.evaluate import Evaluated, evaluate, to_device
from anyformer.training.optimiser import build_optimiser, load_state_tensors, state_tensors
from anyformer.training.place import checkpoint_bytes
from anyformer.training.precision import Host, deterministic
from anyformer.training.run import Run
from anyformer.training.step import LossFunction, Outcome, loss_function, update

BASELINE_TOKENS = 20_000_000
"""Most training tokens that the bigram baseline counts."""
OPTIMISER = "optimiser.safetensors"
DISK_RATE = 2e8
"""Bytes of a checkpoint hashed and written in a second, estimated low."""


@dataclass(frozen=True)
class Trainer:
    """A run and everything built from it; the weights and moments inside change as it trains.

    `still`: weights that no update may move; `average`: the run's average of weights, None without one.
    """

    run: Run
    corpus: Corpus
    model: Transformer
    optimiser: torch.optim.Optimizer
    loss: LossFunction
    batches: Batches
    still: Still
    average: Running | None

    @staticmethod
    def start(run: Run, corpus: Corpus, machine: Host, given: Callable[[Transformer], None] = lambda model: None) -> Trainer:
        """The trainer before its first update. `given`: gives the built model weights of another model."""
        keep_freed_memory()
        model = build(run.architecture, run.plan, machine.device, seed=run.seed).train()
        tune(model, run.tuning, run.seed)
        given(model)
        return Trainer(
            run,
            corpus,
            model,
            build_optimiser(run.optimiser, model),
            loss_function(model, run.objective, run.plan),
            Batches(corpus.train, run.length, run.batch, run.seed, run.data.isolate, run.data.sampling),
            Still.of(model, run.tuning),
            None if run.average is None else run.average.of(model),
        )

    def changed(self, **fields: Any) -> Trainer:
        """The trainer with other fields of the run, none of which an update is computed with."""
        return replace(self, run=self.run.but(**fields))

    def timed(self, left: float) -> Durations:
        """Seconds of an update, an evaluation and a checkpoint; long ones are timed only once, to spare the seconds `left`.

        Gradients are thrown away, so that no weight changes.
        """
        pieces, tokens = self.micro_batches(0)

        def gradients() -> None:
            for examples in pieces:
                summed, _ = self.loss(examples, Noise.at(self.run.seed, 0, examples.rows))
                (summed / tokens).backward()  # type: ignore[no-untyped-call]
            self.optimiser.zero_grad(set_to_none=True)

        with deterministic():
            first = _seconds(gradients)
            # The first one may include compiling, which takes longer than hundreds of updates, and then does not count.
            gradient = _seconds(gradients) if self.run.plan.compile == "on" or first < 0.05 * left else first
            if gradient < 0.02 * left:
                gradient = median([gradient, *(_seconds(gradients) for _ in range(2))])
        batch = _seconds(lambda: self.evaluate(self.run.batch))
        counted = min(len(self.corpus.train), BASELINE_TOKENS) if self.run.evaluation.baseline else 0
        return Durations(gradient, batch, checkpoint_bytes(self.run) / DISK_RATE, counted)

    def micro_batches(self, step: int) -> tuple[list[Examples], int]:
        """The pieces of the global batch of `step`, and how many valid tokens it has."""
        whole = self.batches.at(step)
        size = self.run.batch // self.run.accumulation
        device = self.model.device
        pieces = [to_device(whole.slice(at, at + size), device) for at in range(0, self.run.batch, size)]
        return pieces, whole.valid

    def update(self, step: int, hold: Callable[[], None] = lambda: None) -> tuple[Outcome, int]:
        """Update number `step` (from 0): its outcome and its number of valid tokens. `hold`: see `step.update`."""
        run = self.run
        pieces, tokens = self.micro_batches(step)
        rate = run.learning_rate(step)
        outcome = update(
            self.loss, self.model, self.optimiser, pieces,
            tokens=tokens, seed=run.seed, step=step, rate=rate, clip=run.clip, hold=hold,
        )  # fmt: skip
        self.still.put_back(self.model)
        if self.average is not None:
            self.average.updated()
        return outcome, tokens

    def evaluate(self, windows: int, progress: Callable[[int], None] = lambda done: None) -> Evaluated:
        """The loss over `windows` windows spread evenly over the validation split, or all of it. `progress`: see `evaluate`."""
        run = self.run
        with averaged(self.averages):
            return evaluate(
                self.model, run.objective, self.corpus.validation, run.plan,
                length=run.length, batch=run.batch, isolate=run.data.isolate, most=windows, progress=progress,
            )  # fmt: skip

    def finished(self) -> Transformer:
        """The model to use: with averaged weights if there are any, adapters merged, in evaluation mode."""
        with averaged(self.averages):
            return plain(self.model)

    @property
    def averages(self) -> Averages:
        """The weights to evaluate with and to save, where they are not those in training."""
        return none if self.average is None else self.average.weights

    @property
    def kept(self) -> int:
        """Bytes of tensors that stay between updates beside weights and moments."""
        averages = {} if self.average is None else self.average.weights()
        return sum(x.nbytes for x in (*averages.values(), *self.still.held.values()))

    def save(self, directory: Path, step: int, validation: float | None) -> None:
        """Write a checkpoint after `step` updates, and delete old ones beyond those to keep."""
        with averaged(self.averages) as trained:
            state = {**state_tensors(self.optimiser, self.model), **trained_tensors(self.model, trained)}
            checkpoint.save(
                self.model,
                checkpoint.directory_of(directory, step),
                tokenizer=self.corpus.tokenizer,
                extra={Path(OPTIMISER).stem: state},
                facts={
                    "step": step,
                    "validation_loss": validation,
                    "data": self.corpus.digest,
                    "run": json.loads(to_json(self.run)),
                },
            )
        checkpoint.prune(directory, self.run.checkpoints.keep)

    def restored(self, directory: Path) -> Trainer:
        """The trainer with weights and moments from a verified checkpoint."""
        checkpoint.restore(self.model, directory)
        state = checkpoint.read(directory / OPTIMISER)
        if self.average is not None:
            self.average.restore()
        load_state_tensors(self.optimiser, self.model, state)
        restore_trained(self.model, state)
        still = Still.of(self.model, self.run.tuning)
        return replace(self, still=still)

    def training_tokens(self) -> NDArray[np.int64]:
        """The tokens that the run trained on, for the baseline."""
        run, split = self.run, self.corpus.train
        assert run.steps is not None
        most = min(len(split), BASELINE_TOKENS)
        if run.steps * run.batch * run.length >= most:
            return split.tokens[:most]
        return np.concatenate([self.batches.at(step).tokens.ravel() for step in range(run.steps)])

    def held_out_tokens(self) -> NDArray[np.int64]:
        """The tokens of the last evaluation, (windows, length + 1)."""
        return spread(self.corpus.validation, self.run.length, windows_of(self.run, self.run.evaluation.final_tokens))


def windows_of(run: Run, tokens: int) -> int:
    """Number of windows of the run's length that hold `tokens` tokens."""
    return -(-tokens // run.length)


def _seconds(act: Callable[[], object]) -> float:
    start = budget.clock()
    act()
    return budget.clock() - start


def corpus_of(run: Run) -> Corpus:
    """The run's data, prepared. Raises an error without held-out text, or if the tokenizer exceeds the embedding's rows."""
    corpus = prepare(run.data)
    if len(corpus.validation) < 2:
        raise DataError(_not_held_out(run, corpus))
    vocab = run.architecture.embedding.symbols
    assert vocab is not None, "a run reads tokens"
    if corpus.tokenizer.vocab_size > vocab:
        raise DescriptionError(
            f"the tokenizer has {corpus.tokenizer.vocab_size} tokens and the embedding {vocab} rows; "
            f"set embedding.vocab={corpus.tokenizer.vocab_size}"
        )
    return corpus


def _not_held_out(run: Run, corpus: Corpus) -> str:
    """The error for too little held-out text, with the amount needed."""
    share, held = run.data.validation, len(corpus.validation)
    if run.data.validation_paths:
        return f"validation_paths: {held:,} tokens are held out, and at least 2 are needed; give more text"
    if share == 0:
        return "no text is held out, so nothing can be evaluated; set data.validation above 0, or validation_paths"
    needed = ceil(max(2 / share, (run.length + 1) / (1 - share)))
    return (
        f"the text is too short: it has {len(corpus.train) + held:,} tokens, and about {needed:,} are needed, for one window "
        f"of length {run.length:,} to train on and for a share of {share:g} (data.validation) to hold out; give more text"
    )
