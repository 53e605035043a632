"""A run with its data, model and optimiser, and the steps of the loop: update, evaluate, save, restore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from anyformer import checkpoint
from anyformer.data import Corpus
from anyformer.describe import to_json
from anyformer.model.adapters import plain
from anyformer.model.divided import local
from anyformer.model.narrow import histories
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples, Feed, Setting, penalised
from anyformer.objectives.mixing import baseline_of, held_out_feed, training_feed
from anyformer.objectives.own_samples import OwnSamples
from anyformer.precision.running import Running
from anyformer.quantising.planes import planes_of
from anyformer.quantising.tensor import stored_bytes
from anyformer.training.allocator import keep_freed_memory, return_freed_memory
from anyformer.training.answers import Answers
from anyformer.training.averaging import averaged, none
from anyformer.training.computing_place import Within, directly
from anyformer.training.evaluate import Evaluated, evaluate
from anyformer.training.instability import Past
from anyformer.training.loss_scale import LossScale
from anyformer.training.made_examples import own_answers, prepared_piece, samples_of
from anyformer.training.memory_meter import state_bytes
from anyformer.training.parallel.ranks import ALONE, Ranks
from anyformer.training.passes import MicroBatches, MicroBatchLoss, Passes
from anyformer.training.precision import Host
from anyformer.training.retention import Retention
from anyformer.training.run import Run
from anyformer.training.run_models import Given, RunModels
from anyformer.training.saving import Write, Written
from anyformer.training.step import Updates
from anyformer.training.teacher import answered
from anyformer.training.text_settings import beside_of
from anyformer.training.trainee import Trainee, all_evaluated
from anyformer.tuning import Tuning

OPTIMISER, NUMBERS = "optimiser.safetensors", "precision.safetensors"
_OWN = ("model.safetensors", "adapter.safetensors", OPTIMISER, NUMBERS)
"""The files of a checkpoint that are about the run's own model, which a pipeline divides."""


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
    passes: Passes
    training: Feed
    held_out: Feed
    scale: LossScale | None = None
    """Of the loss, in a precision that needs one."""
    answers: Answers | None = None
    """Of a teacher about every row, where they are kept."""
    ranks: Ranks = ALONE
    """The processes of the run; each has its part of every batch, and perhaps of every weight."""
    within: Within = directly
    """Where models compute whose weights are divided."""
    samples: OwnSamples | None = None
    """What makes examples of the model's own answers, where it learns from these."""

    @staticmethod
    def start(
        run: Run,
        corpus: Corpus,
        machine: Host,
        given: Given = lambda model: (),
        begun: Path | None = None,
        ranks: Ranks = ALONE,
        say: Callable[[str], None] = lambda line: None,
    ) -> Trainer:
        """The trainer before its first update; of a run that has `begun`, in this directory, before it is restored.

        `given`: gives a model weights of another one, and says which; `say` is told that, and what a teacher was asked.
        """
        if ranks.size == 1:
            keep_freed_memory()
        else:
            return_freed_memory()
        setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
        training = training_feed(run.objective, run.data, corpus, setting, run.batch)
        answers = ranks.in_turn(lambda: answered(run, corpus, training, machine.device, say, begun))
        held_out = held_out_feed(run.objective, run.data, corpus, setting, run.batch)
        models = RunModels.start(run, corpus.tokenizer, machine.device, given, begun, ranks, say)
        penalties = partial(penalised, run.objective)
        loss = MicroBatchLoss(models.model, run.objective, penalties, run.plan, models.partners)
        passes = ranks.passes(loss, models.within)
        samples = samples_of(run, setting, ranks, models.model.device)
        models.model.train(samples is None)
        trainee, scale = Trainee.of(models.model, run, run.tuning), LossScale.of(run.plan.precision)
        trainees = {name: Trainee.of(one, run, Tuning()) for name, one in models.learning.items()}
        return Trainer(
            run, corpus, trainee, models.partners, trainees, passes, training, held_out, scale, answers, ranks, models.within,
            samples,
        )  # fmt: skip

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

    def fetched(self, step: int, passed: int = 0) -> Examples:
        """What a feed gives for update number `step` (from 0): this process's part of the batch `passed` places further on."""
        own = self.training.at(step + passed, self.ranks.replica, self.ranks.replicas)
        return own if self.answers is None else self.answers.beside(own)

    def micro_batches(self, step: int, passed: int = 0) -> MicroBatches:
        """What update number `step` is computed from."""
        return self.cut(step, self.fetched(step, passed))

    def cut(self, step: int, own: Examples) -> MicroBatches:
        """The micro-batches of update number `step`, of what was `fetched` for it."""
        run, ranks = self.run, self.ranks
        size = (rows := run.batch // ranks.replicas) // run.accumulation
        own, told = own_answers(self.samples, self.model, self.partners, own, size, run, ranks, self.within)
        parts = (own.slice(at, at + size).to(self.model.device) for at in range(0, rows, size))
        pieces = [prepared_piece(part, self.model, self.partners, run, self.within) for part in parts]
        # A batch without a single target has a loss of 0.
        count = max(ranks.total(own.count), 1.0)
        return MicroBatches(pieces, count, run.seed, step, "".join(ranks.of_replicas(own.digest)), told)

    def rate(self, step: int) -> float:
        """The rate of update number `step` (from 0)."""
        # An update that changes nothing is no step of the schedule: behind a scale that was too large, warm-up comes whole.
        return self.run.learning_rate(step - (0 if self.scale is None else self.scale.skipped))

    @property
    def updates(self) -> Updates:
        """What updates are made with."""
        trainees = tuple(self._trainees.values())
        uses = self.run.objective.traits.uses
        return Updates(self.passes, trainees, self.run.clip, self.scale, self.ranks, self.within, uses)

    def _histories(self) -> Iterator[tuple[str, Running]]:
        """Scales of the updates before, of every model that learns, by name."""
        for name, one in self._trainees.items():
            for path, running in histories(one.model):
                yield f"{name}/{path}", running

    def _numbers(self) -> dict[str, Tensor]:
        """What the precision keeps from update to update beside weights and optimisers."""
        kept = {} if self.scale is None else self.scale.tensors()
        return kept | {path: running.maxima for path, running in self._histories()}

    def held(self) -> int:
        """Bytes of tensors that stay between updates: weights, moments, and what is kept beside them."""
        trainees = self._trainees.values()
        still = (weight for name, model in self.partners.items() if name not in self.learning for weight in model.parameters())
        graders = 0 if self.samples is None else self.samples.held
        learning = sum(state_bytes(one.model, one.optimiser) + one.kept for one in trainees)
        return learning + sum(stored_bytes(local(x)) for x in still) + graders

    def evaluate(self, rows: int, progress: Callable[[int], None] = lambda done: None) -> Evaluated:
        """The loss over `rows` rows spread evenly over the validation split, or all of it. `progress`: see `evaluate`."""
        with all_evaluated(self._trainees):
            return evaluate(
                self.model, self.run.objective, self.held_out, self.run.plan,
                most=rows, partners=self.partners, names=self.corpus.names, progress=progress, ranks=self.ranks,
                within=self.within, tokenizer=self.corpus.tokenizer if self.ranks.size == 1 else None, samples=self.samples,
            )  # fmt: skip

    def finished(self) -> Transformer | None:
        """The model to use: with averaged weights if there are any, adapters merged, in evaluation mode.

        None of several processes, of which none needs to have all of it: it is in the newest checkpoint.
        """
        if self.ranks.size > 1:
            return None
        with averaged(self.trainee.averages):
            return plain(self.model)

    def saving(self, directory: Path, step: int, validation: float | None, past: Past, take: checkpoint.Take) -> Write:
        """Take all that the checkpoint after `step` updates holds; the function writes it, and deletes old ones beyond those to
        keep."""
        if self.ranks.size > 1 and any(one.averages is not none for one in self._trainees.values()):
            take = checkpoint.copied  # divided weights are averaged in place, and change back before they are written

        planes = planes_of(self.model) if self.model.stage_of else {}

        def staged(file: str, name: str) -> bool:
            before, _, after = name.partition("/")  # MODEL/PATH of scales, WEIGHT/MOMENT of moments
            weight = before if file != NUMBERS else "" if before else f"{after}.weight"
            return file in _OWN and planes.get(weight, weight) in self.model.stage_of

        with all_evaluated(self._trainees) as states:
            others = {name: dict(one.model.state_dict()) for name, one in self.learning.items()}
            taken = checkpoint.contents(
                self.model,
                extra={Path(_state_file(name)).stem: state for name, state in states.items()} | others | self._extra(),
                facts={
                    "step": step,
                    "validation_loss": validation,
                    "data": self.corpus.digest,
                    "classes": {column: list(names) for column, names in self.corpus.names.items()},
                    **past.facts(),
                },
                pick=self.ranks.picking(take, staged),
            )

        def write() -> Written:
            kept = taken
            if self.ranks.first:  # which alone writes what stands beside the tensors
                facts = {**taken.facts, "run": json.loads(to_json(self.run))}
                kept = replace(taken, facts=facts, beside=beside_of(self.corpus.tokenizer, directory))
            return self.retention(directory).write(kept, step, self.regular(step + 1))

        return write

    def retention(self, directory: Path) -> Retention:
        """The checkpoints of the run in its directory."""
        return Retention(directory, self.run.checkpoints, self.ranks)

    def regular(self, step: int) -> int | None:
        """The step of the last regular checkpoint before update number `step` (from 1) is counted, None if no run goes back.

        It depends on the run alone, not on when a process was stopped, so that a resumed run goes back to the same step.
        """
        run = self.run
        return (step - 1) // run.checkpoints.every * run.checkpoints.every if run.spikes and run.spikes.rewinds else None

    def _extra(self) -> dict[str, dict[str, Tensor]]:
        """The file of a checkpoint for what the precision keeps, where it keeps anything."""
        numbers = self._numbers()
        return {Path(NUMBERS).stem: numbers} if numbers else {}

    def restored(self, directory: Path) -> Trainer:
        """The trainer with weights and moments from a verified checkpoint."""
        checkpoint.restore(self.model, directory)
        for name, one in self.learning.items():
            tensors = checkpoint.read_weights(directory / f"{name}.safetensors")
            for key in tensors:
                checkpoint.copy_stored(tensors, key, one.model.get_parameter(key))
        trainee = self.trainee.restored(checkpoint.read(directory / OPTIMISER), self.run.tuning)
        learning = {
            name: one.restored(checkpoint.read(directory / _state_file(name)), Tuning()) for name, one in self.learning.items()
        }
        if self._numbers():
            numbers = checkpoint.read(directory / NUMBERS)
            if self.scale is not None:
                self.scale.restore(numbers)
            for path, running in self._histories():
                running.maxima = numbers[path]
        return replace(self, trainee=trainee, learning=learning)

    @property
    def _trainees(self) -> dict[str, Trainee]:
        """Every model that learns, the run's own under an empty name."""
        return {"": self.trainee, **self.learning}

    def baseline(self, metrics: Mapping[str, float]) -> tuple[str, float] | None:
        """What a model without any context is, and its loss on the examples of the last evaluation, which gave these metrics;
        None where there is none."""
        run = self.run
        if (told := run.objective.traits.told(metrics)) is not None:
            return told
        assert run.steps is not None
        rows = windows_of(run, run.evaluation.final_tokens)
        return baseline_of(run.objective.baseline, self.training, run.steps, self.held_out, rows, run.architecture.outputs)


def _state_file(name: str) -> str:
    """The file of an optimiser's state, for the model of this name among those that learn."""
    return f"{name}-{OPTIMISER}" if name else OPTIMISER


def windows_of(run: Run, tokens: int) -> int:
    """Number of rows of the run's length that hold `tokens` tokens."""
    return -(-tokens // run.length)
