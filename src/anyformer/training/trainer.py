"""A run with its data, model and optimiser, and the steps of the loop: update, evaluate, save, restore."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from anyformer import checkpoint
from anyformer.data import Corpus, DataError, Files, prepare
from anyformer.describe import DescriptionError, to_json
from anyformer.model import Transformer, build
from anyformer.model.adapters import plain
from anyformer.objectives import Examples, Feed, Setting
from anyformer.objectives.feed import MOST_TOKENS
from anyformer.objectives.mixing import baseline_of, held_out_feed, training_feed
from anyformer.parts.call.noise import Noise
from anyformer.training import budget
from anyformer.training.adapting import rest, tune
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.averaging import averaged
from anyformer.training.budget import Durations
from anyformer.training.evaluate import Evaluated, evaluate
from anyformer.training.partners import restored_partners, start_partners
from anyformer.training.place import checkpoint_bytes
from anyformer.training.precision import Host, deterministic
from anyformer.training.run import Run
from anyformer.training.step import LossFunction, Outcome, loss_function, update
from anyformer.training.trainee import Trainee, all_evaluated
from anyformer.tuning import Tuning

OPTIMISER = "optimiser.safetensors"
DISK_RATE = 2e8
"""Bytes of a checkpoint hashed and written in a second, estimated low."""


@dataclass(frozen=True)
class Trainer:
    """A run and everything built from it; the weights and moments inside change as it trains.

    `trainee`: the run's model; `partners`: the second models of its objective; `learning`: those of them that learn too.
    """

    run: Run
    corpus: Corpus
    trainee: Trainee
    partners: Mapping[str, Transformer]
    learning: Mapping[str, Trainee]
    loss: LossFunction
    training: Feed
    held_out: Feed

    @staticmethod
    def start(
        run: Run,
        corpus: Corpus,
        machine: Host,
        given: Callable[[Transformer], None] = lambda model: None,
        begun: Path | None = None,
    ) -> Trainer:
        """The trainer before its first update; of a run that has `begun`, in this directory, before it is restored.

        `given`: gives the built model weights of another model.
        """
        keep_freed_memory()
        setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names)
        training = training_feed(run.objective, run.data, corpus, setting, run.batch)
        held_out = held_out_feed(run.objective, run.data, corpus, setting, run.batch)
        model = build(run.architecture, run.plan, machine.device, seed=run.seed).train()
        tune(model, run.tuning, run.seed)
        given(model)
        rest(model, run.tuning)
        told = (run, model, corpus.tokenizer)
        partners = start_partners(*told) if begun is None else restored_partners(*told, begun)
        learning = {
            name: Trainee.of(partners[name], run, Tuning()) for name, one in run.objective.partners.items() if one.learns
        }
        loss = loss_function(model, run.objective, run.plan, partners)
        return Trainer(run, corpus, Trainee.of(model, run, run.tuning), partners, learning, loss, training, held_out)

    @property
    def model(self) -> Transformer:
        """The run's model."""
        return self.trainee.model

    @property
    def left_out(self) -> list[str]:
        """How many examples no row of the run has, in words; nothing where all have one."""
        feeds = {"training": self.training, "held-out": self.held_out}
        return [
            f"{feed.left_out:,} of {feed.whole:,} {name} {feed.unit} do not fit into length = {self.run.length:,}: left out"
            for name, feed in feeds.items()
            if feed.left_out
        ]

    def changed(self, **fields: Any) -> Trainer:
        """The trainer with other fields of the run, none of which an update is computed with."""
        return replace(self, run=self.run.but(**fields))

    def timed(self, left: float) -> Durations:
        """Seconds of an update, an evaluation and a checkpoint; long ones are timed only once, to spare the seconds `left`.

        Gradients are thrown away, so that no weight changes.
        """
        pieces, count = self.micro_batches(0)

        def gradients() -> None:
            for examples in pieces:
                summed, _ = self.loss(examples, Noise.at(self.run.seed, 0, examples.rows))
                (summed / count).backward()  # type: ignore[no-untyped-call]
            for each in (self.trainee, *self.learning.values()):
                each.optimiser.zero_grad(set_to_none=True)

        with deterministic():
            first = _seconds(gradients)
            # The first one may include compiling, which takes longer than hundreds of updates, and then does not count.
            gradient = _seconds(gradients) if self.run.plan.compile == "on" or first < 0.05 * left else first
            if gradient < 0.02 * left:
                gradient = median([gradient, *(_seconds(gradients) for _ in range(2))])
        batch = _seconds(lambda: self.evaluate(self.run.batch))
        counted = min(self.training.whole, MOST_TOKENS) if self.run.evaluation.baseline else 0
        return Durations(gradient, batch, checkpoint_bytes(self.run) / DISK_RATE, counted)

    def micro_batches(self, step: int) -> tuple[list[Examples], float]:
        """The pieces of the global batch of `step`, and the number that its summed loss is divided by."""
        whole = self.training.at(step)
        size = self.run.batch // self.run.accumulation
        device = self.model.device
        pieces = [whole.slice(at, at + size).to(device) for at in range(0, self.run.batch, size)]
        # A batch without a single target has a loss of 0.
        return pieces, max(whole.count, 1.0)

    def update(self, step: int, hold: Callable[[], None] = lambda: None) -> Outcome:
        """Update number `step` (from 0). `hold`: see `step.update`."""
        run = self.run
        pieces, count = self.micro_batches(step)
        rate = run.learning_rate(step)
        outcome = update(
            self.loss, self.model, self.trainee.optimiser, pieces, others=[one.optimiser for one in self.learning.values()],
            count=count, seed=run.seed, step=step, rate=rate, clip=run.clip, hold=hold,
        )  # fmt: skip
        for one in self._trainees.values():
            one.updated()
        return outcome

    @property
    def kept(self) -> int:
        """Bytes of tensors that stay between updates beside weights and moments."""
        return sum(one.kept for one in self._trainees.values())

    def evaluate(self, rows: int, progress: Callable[[int], None] = lambda done: None) -> Evaluated:
        """The loss over `rows` rows spread evenly over the validation split, or all of it. `progress`: see `evaluate`."""
        with all_evaluated(self._trainees):
            return evaluate(
                self.model, self.run.objective, self.held_out, self.run.plan,
                most=rows, partners=self.partners, names=self.corpus.names, progress=progress,
            )  # fmt: skip

    def finished(self) -> Transformer:
        """The model to use: with averaged weights if there are any, adapters merged, in evaluation mode."""
        with averaged(self.trainee.averages):
            return plain(self.model)

    def save(self, directory: Path, step: int, validation: float | None) -> None:
        """Write a checkpoint after `step` updates, and delete old ones beyond those to keep."""
        with all_evaluated(self._trainees) as states:
            others = {name: dict(one.model.state_dict()) for name, one in self.learning.items()}
            checkpoint.save(
                self.model,
                checkpoint.directory_of(directory, step),
                tokenizer=self.corpus.tokenizer,
                extra={Path(_state_file(name)).stem: state for name, state in states.items()} | others,
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
        for name, one in self.learning.items():
            one.model.load_state_dict(checkpoint.read(directory / f"{name}.safetensors"))
        trainee = self.trainee.restored(checkpoint.read(directory / OPTIMISER), self.run.tuning)
        learning = {
            name: one.restored(checkpoint.read(directory / _state_file(name)), Tuning()) for name, one in self.learning.items()
        }
        return replace(self, trainee=trainee, learning=learning)

    @property
    def _trainees(self) -> dict[str, Trainee]:
        """Every model that learns, the run's own under an empty name."""
        return {"": self.trainee, **self.learning}

    def baseline(self) -> tuple[str, float] | None:
        """What a model without any context is, and its loss on the examples of the last evaluation; None where there is
        none."""
        run = self.run
        assert run.steps is not None
        rows = windows_of(run, run.evaluation.final_tokens)
        return baseline_of(run.objective, self.training, run.steps, self.held_out, rows, run.architecture.outputs)


def _state_file(name: str) -> str:
    """The file of an optimiser's state, for the model of this name among those that learn."""
    return f"{name}-{OPTIMISER}" if name else OPTIMISER


def windows_of(run: Run, tokens: int) -> int:
    """Number of rows of the run's length that hold `tokens` tokens."""
    return -(-tokens // run.length)


def _seconds(act: Callable[[], object]) -> float:
    start = budget.clock()
    act()
    return budget.clock() - start


def corpus_of(run: Run) -> Corpus:
    """The run's data, prepared. Raises an error without held-out examples, or if the tokenizer exceeds the embedding's rows."""
    corpus = prepare(run.data, special=run.objective.special(run.length))
    least = run.objective.least_held_out
    for name, part in corpus.components.items():
        if len(part.validation) < least:
            raise DataError(f"{name}: " * bool(name) + _not_held_out(run, run.data.components[name], part))
        run.objective.check_outputs(run.architecture, part)
    for name, vocab in run.architecture.vocabularies.items():
        if corpus.tokenizer.vocab_size > vocab:
            raise DescriptionError(
                f"the tokenizer has {corpus.tokenizer.vocab_size} tokens and the {name} {vocab} rows; "
                f"set {name}.vocab={corpus.tokenizer.vocab_size}"
            )
    return corpus


def _not_held_out(run: Run, data: Files, corpus: Corpus) -> str:
    """The error for too little held-out data, with the amount needed."""
    share, held, objective = data.validation, len(corpus.validation), run.objective
    unit = "tokens" if objective.least_held_out > 1 else "records"
    if data.validation_paths:
        return f"validation_paths: {held:,} {unit} are held out, and at least {objective.least_held_out} are needed; give more"
    if share == 0:
        return "nothing is held out, so nothing can be evaluated; set data.validation above 0, or validation_paths"
    if unit == "records":
        return f"no record is held out of {len(corpus.train):,}; give more records, or set a greater data.validation"
    needed = ceil(max(2 / share, (run.length + 1) / (1 - share)))
    return (
        f"the text is too short: it has {len(corpus.train) + held:,} tokens, and about {needed:,} are needed, for one window "
        f"of length {run.length:,} to train on and for a share of {share:g} (data.validation) to hold out; give more text"
    )
