"""One process's part of a run: updates, evaluations, checkpoints, an end that loses nothing, and the last figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer import checkpoint
from anyformer.costs import scaled
from anyformer.data import Tokenizer, interpolated_bigram_loss
from anyformer.describe import UserError
from anyformer.files import PlaceError, write_text
from anyformer.model import Transformer
from anyformer.operations import Shape
from anyformer.training import budget as budgets
from anyformer.training import journal
from anyformer.training.budget import Budget
from anyformer.training.chart import draw_losses
from anyformer.training.display import Display
from anyformer.training.evaluate import Evaluated
from anyformer.training.invocation import command
from anyformer.training.memory_meter import MemoryMeter
from anyformer.training.precision import Host, deterministic
from anyformer.training.run import Run
from anyformer.training.stop import Stop, Stopped
from anyformer.training.summary import Summary, summarise
from anyformer.training.trainer import Trainer, windows_of


class UnsavedError(UserError):
    """The disk refused what a run had to write; the last whole checkpoint goes on."""

    exit_code = 1


@dataclass(frozen=True)
class Trained:
    """What a run gives: where it lies, the model, its tokenizer, and what it reached.

    `finished` is false after Ctrl-C, and `exit_code` then what a shell expects. `prompts`: what the sample continues, and what
    to try next. `deadline`: the reading of the clock at which the run's minutes end.
    """

    directory: Path
    model: Transformer
    tokenizer: Tokenizer
    step: int
    finished: bool
    exit_code: int = 0
    validation: Evaluated | None = None
    baseline: float | None = None
    summary: Summary | None = None
    """What was predicted beside what was measured, once it is finished."""
    prompts: tuple[str, ...] = ()
    deadline: float | None = None


@dataclass
class Session:
    """The updates of a run from number `step` on; `saved` is the step of the newest checkpoint."""

    directory: Path
    trainer: Trainer
    machine: Host
    memory: MemoryMeter
    console: Console
    stop: Stop
    budget: Budget | None = None
    step: int = 0
    first: int = field(init=False)
    saved: int = field(init=False)
    best: float = field(init=False)
    """The lowest validation loss so far, of earlier processes too."""
    display: Display = field(init=False)

    def __post_init__(self) -> None:
        run, peak = self.run, self.machine.peaks[self.run.plan.precision]
        forward = run.architecture.cost(Shape(batch=run.batch, length=run.length), run.plan).total_flops.dense
        self.first = self.saved = self.step
        self.best = min((row["loss"] for row in self._looks()), default=float("inf"))
        self.display = Display(self.console, self.steps, peak, 3 * forward // (run.batch * run.length), self.first)

    @property
    def run(self) -> Run:
        return self.trainer.run

    @property
    def steps(self) -> int:
        """Updates in all."""
        assert self.run.steps is not None, "the minutes have become steps"
        return self.run.steps

    @property
    def complete(self) -> bool:
        """Whether every update is made, saved and evaluated, and the last figures are there."""
        evaluated = any(row["step"] == self.step and row.get("last") for row in self._looks())
        return self.step == self.steps and evaluated and (self.directory / journal.SUMMARY).exists()

    def go(self) -> Trained:
        """To the end, or to Ctrl-C."""
        try:
            try:
                with deterministic(), self.display:
                    self._train()
                return self._finish()
            except Stopped as stopped:
                return self._halt(stopped)
        except PlaceError as error:
            older = f"the checkpoint of step {self.saved} is whole" if self.saved else "there was no checkpoint before it"
            more = command("train", "--resume", self.directory)
            raise UnsavedError(f"{error}\nNothing of it is left, and {older}. Continue with: {more}") from error

    def trained(self, *, finished: bool, exit_code: int = 0) -> Trained:
        """What there is now."""
        return Trained(self.directory, self.trainer.model.eval(), self.trainer.corpus.tokenizer, self.step, finished, exit_code)

    def _train(self) -> None:
        self._look()  # what was due when an earlier process ended
        if self.run.plan.compile == "on" and self.budget is None and self.step < self.steps:
            self.display.compiling()  # where there are minutes, timing an update has compiled it
        while self.step < self.steps:
            self._update()
            if self.budget is not None:
                self._keep_time(self.budget)
            last = self.step == self.steps
            if last or self.step % self.run.checkpoints.every == 0:
                self._save()
            self._look()

    def _update(self) -> None:
        """One update and its line in the metrics: both or neither."""
        run, number = self.run, self.step + 1
        self.stop.doing = f"update {number}; what is not saved yet is saved first"
        start = budgets.clock()
        with self.stop.window(f"finishing update {number} and saving it") as hold:
            with self.memory.watching(number - self.first, self.trainer.model, self.trainer.optimiser):
                outcome, tokens = self.trainer.update(self.step, hold)
            seconds = budgets.clock() - start
            # Of each layer the largest share, and with a capacity what was dropped; all shares stand in evaluations.
            experts = {
                path: {"largest": max(load.shares), "dropped": load.dropped_share} for path, load in outcome.loads.items()
            }
            journal.append(
                self.directory, kind="train", step=number, loss=outcome.loss, gradient_norm=outcome.gradient_norm,
                tokens=number * run.batch * run.length, learning_rate=run.learning_rate(self.step), seconds=round(seconds, 4),
                **({"experts": experts} if experts else {}),
            )  # fmt: skip
            self.step = number
        self.display.step(number, outcome.loss, tokens, seconds)

    def _keep_time(self, budget: Budget) -> None:
        """Fewer updates if the minutes would not hold them: in the open, and so that a resumed run does the same."""
        steps = budget.shortened(self.step, self.steps)
        if steps == self.steps:
            return
        with self.stop.held("shortening the run"):
            self.display.shorten(self.step, steps)
            journal.append(self.directory, kind="shortened", step=self.step, old=self.steps, new=steps)
            self.trainer = self.trainer.changed(steps=steps)
            journal.write_run(self.directory, self.run)
        self._save()

    def _save(self, validation: float | None = None) -> None:
        """A checkpoint of what is trained so far, if there is none."""
        if self.saved == self.step:
            return
        with self.stop.held("saving a checkpoint"):
            self.trainer.save(self.directory, self.step, validation)
            self.saved = self.step

    def _look(self) -> None:
        """Evaluate if it is due and was not done; the last time after the checkpoint, and then better and longer."""
        run, last = self.run, self.step == self.steps
        due = self.step > 0 and (last or self.step % run.evaluation.every == 0)
        if not due or any(row["step"] == self.step and row.get("last", False) >= last for row in self._looks()):
            return
        windows = windows_of(run, run.evaluation.final_tokens) if last else run.evaluation.batches * run.batch
        whole = len(self.trainer.corpus.validation) - 1
        self.stop.doing = "evaluating; all updates are saved" if last else "evaluating; what is not saved yet is saved first"
        with self.display.evaluating(min(windows * run.length, whole), whole, aloud=last) as progress:

            def done(tokens: int) -> None:
                progress(tokens)
                self.stop.check()

            looked = self.trainer.evaluate(windows, done)
        with self.stop.held("saving a checkpoint"):
            if self.saved == self.step:
                checkpoint.add_facts(checkpoint.directory_of(self.directory, self.step), validation_loss=looked.loss)
                checkpoint.prune(self.directory, run.checkpoints.keep)
            elif looked.loss < self.best:
                self._save(looked.loss)
            self._note(looked, last=last)
            self.best = min(self.best, looked.loss)
        self.display.look(self.step, looked.loss)

    def _note(self, looked: Evaluated, *, last: bool) -> None:
        run = self.run
        experts = {path: {"shares": load.shares, "dropped": load.dropped_share} for path, load in looked.loads.items()}
        journal.append(
            self.directory, kind="validation", step=self.step, tokens=self.step * run.batch * run.length, loss=looked.loss,
            perplexity=looked.perplexity, bits_per_byte=looked.bits_per_byte, validation_tokens=looked.tokens,
            whole=looked.whole, last=last, **({"experts": experts} if experts else {}),
        )  # fmt: skip

    def _looks(self) -> list[dict[str, Any]]:
        return [row for row in journal.read_metrics(self.directory) if row["kind"] == "validation"]

    def _halt(self, stopped: Stopped) -> Trained:
        """Save what is trained, and say how to go on."""
        self.stop.clear()
        self._save()
        if self.step:
            where = f"after step {self.step} of {self.steps}; everything trained is saved"
        else:
            where = "before the first update; nothing was trained yet"
        more = command("train", "--resume", self.directory)
        self.console.out(f"stopped {where}; continue with: {more}", highlight=False)
        return self.trained(finished=False, exit_code=stopped.exit_code)

    def _finish(self) -> Trained:
        """The last numbers and the picture."""
        run, trainer = self.run, self.trainer
        self.stop.doing = "drawing the picture and summing up; all updates are saved"
        rows = journal.read_metrics(self.directory)
        final = [row for row in rows if row["kind"] == "validation"][-1]
        validation = Evaluated(final["loss"], final["validation_tokens"], final["whole"], final["bits_per_byte"])
        baseline: float | None = None
        if run.evaluation.baseline:
            baseline = interpolated_bigram_loss(trainer.seen(), trainer.held_out(), trainer.corpus.tokenizer.vocab_size)
        parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
        depth, width = run.architecture.output_stack.depth, run.architecture.width
        made = f"{scaled(parameters).rstrip()} parameters, {depth} layers of width {width}"
        title = f"{self.directory.resolve().name}: {made}, {run.batch} x {run.length} tokens per step"
        draw_losses(rows, self.directory / "loss.png", title=title, baseline=baseline)
        summary = summarise(run, self.machine, rows, self.memory)
        write_text(self.directory / journal.SUMMARY, json.dumps(summary.data(), indent=2) + "\n")
        openings = tuple(trainer.corpus.opening(number) for number in range(2))
        return Trained(
            self.directory, trainer.model.eval(), trainer.corpus.tokenizer, self.step, True, 0, validation, baseline, summary,
            prompts=openings if run.sample is None else (run.sample, openings[0]),
            deadline=None if self.budget is None else self.budget.began + self.budget.seconds,
        )  # fmt: skip
