"""The part of a run in one process: updates, evaluations, checkpoints, an end that loses nothing, and the summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer import checkpoint
from anyformer.files import PlaceError
from anyformer.objectives.mixing import epochs
from anyformer.training import budget as budgets
from anyformer.training import journal
from anyformer.training.budget import TimeBudget
from anyformer.training.display import Display
from anyformer.training.ending import ended
from anyformer.training.instability import REMEDIES, Past, Spike, SpikeError
from anyformer.training.invocation import command
from anyformer.training.lines import unbroken
from anyformer.training.loss_scale import scale_figures
from anyformer.training.made_examples import told_figures
from anyformer.training.memory_meter import MemoryMeter
from anyformer.training.metrics import Metrics
from anyformer.training.parallel import Ranks, losses_told
from anyformer.training.precision import Host, deterministic, units
from anyformer.training.priced import flops_of
from anyformer.training.run import Run
from anyformer.training.run_end import end_recorded
from anyformer.training.saving import Saver
from anyformer.training.step import NonFiniteError
from anyformer.training.step_profiler import StepProfiler
from anyformer.training.stop import Stop, Stopped
from anyformer.training.trained import Trained
from anyformer.training.trainer import OPTIMISER, Trainer, windows_of
from anyformer.training.usage import UsageMeter, words


@dataclass
class Session:
    """The updates of a run from number `step` on."""

    directory: Path
    trainer: Trainer
    machine: Host
    memory: MemoryMeter
    console: Console
    stop: Stop
    budget: TimeBudget | None = None
    step: int = 0
    past: Past = field(default_factory=Past)
    first: int = field(init=False)
    saver: Saver = field(init=False)
    began: float = field(init=False)
    display: Display = field(init=False)
    usage: UsageMeter = field(init=False)
    profiler: StepProfiler = field(init=False)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        run, peak = self.run, self.ranks.size * self.machine.rated(self.run.plan)
        self.first, self.began = self.step, budgets.clock()
        self.saver = Saver(self.memory.room, self.step)
        self.metrics = Metrics.read(self.directory, run, self.console, writes=self.ranks.first)
        flops = flops_of(run, self.directory) // run.tokens
        self.display = Display(self.console, self.steps, peak, flops, self.first)
        self.profiler = StepProfiler(run, self.directory, self.machine, self.ranks, self.console)

    @property
    def run(self) -> Run:
        return self.trainer.run

    @property
    def ranks(self) -> Ranks:
        return self.trainer.ranks

    @property
    def steps(self) -> int:
        """Updates in all."""
        assert self.run.steps is not None, "the minutes have become steps"
        return self.run.steps

    @property
    def complete(self) -> bool:
        """Whether every update is made, saved and evaluated, and the summary is written."""
        made = self.step == self.steps and self.metrics.evaluated(self.step, last=True)
        return made and (self.directory / journal.SUMMARY).exists()

    def go(self) -> Trained:
        """Train to the end, or to Ctrl-C."""
        try:
            for line in epochs(self.trainer.training, self.steps * self.run.batch):
                self.console.out(line, highlight=False)
            end = end_recorded(self.directory, lambda: (self.step, self.complete), writes=self.ranks.first)
            with end, losses_told(), self.metrics.loggers, self.saver:
                try:
                    with deterministic(), units(self.run.plan), self.display, self.ranks.updating(self.stop):
                        self._train()
                    return self._finish()
                except Stopped as stopped:
                    return self._halt(stopped)
        except Stopped as stopped:
            stopped.kept = self.saver.written
            raise
        except PlaceError as error:
            raise self.saver.unsaved(error, self.directory) from error

    def trained(self, exit_code: int = 0) -> Trained:
        """The result so far."""
        return Trained(self.directory, self.trainer.finished(), self.trainer.corpus.tokenizer, self.step, exit_code)

    def _train(self) -> None:
        self.usage = UsageMeter.of(self.run, self.directory, self.machine, self.ranks)
        if self.step == 0 and self.trainer.regular(1) is not None:
            self._write()  # for a spike before the first checkpoint
        self._evaluate_if_due()  # if it was due when an earlier process ended
        if self.run.plan.compile == "on" and not self.trainer.passes.made and self.step < self.steps:
            self.display.compiling()  # where nothing was timed, which compiles it too
        while self.step < self.steps:
            told = self.ranks.meet(self.stop, (self.usage.own, self.saver.failed))
            self.usage.others = [own for own, _ in told]
            if any(failed for _, failed in told):
                self.saver.then(lambda: None)  # all processes raise it in the same update
            self._update()
            if self.budget is not None:
                self._shorten_if_late(self.budget)
            last = self.step == self.steps
            if last or self.step % self.run.checkpoints.every == 0:
                self._save()
            self._evaluate_if_due()

    def _update(self) -> None:
        """One update and its line in the metrics: both or neither."""
        run, number = self.run, self.step + 1
        self.stop.doing = f"computing step {number}; what is not saved yet is saved first"
        start = budgets.clock()
        with self.stop.window(f"finishing step {number} and saving it") as hold:
            trainer = self.trainer
            with self.memory.watching(number - self.first, trainer.held), self.profiler.around(number):
                try:
                    with self.usage.loading():
                        own = trainer.fetched(self.step, self.past.passed)
                    outcome = trainer.updates.update(trainer.cut(self.step, own), trainer.rate(self.step), hold)
                except NonFiniteError as error:
                    self._skip(number, error)
                    return
            seconds = budgets.clock() - start
            used = self.usage.row(seconds, self.saver.waited) | self._costs()
            self.metrics.append(
                kind="train", step=number, loss=outcome.loss,
                gradient_norm=None if outcome.skipped else outcome.gradient_norm,
                tokens=number * run.tokens, learning_rate=outcome.rate, seconds=round(seconds, 4), data=outcome.data,
                usage=used, **outcome.of_experts, **told_figures(trainer.samples, number, outcome, self._say),
                **scale_figures(trainer.scale, skipped=outcome.skipped),
            )  # fmt: skip
            self.step = number
            spike = None if run.spikes is None else run.spikes.spike(self.past.losses, outcome.loss)
            self.past = self.past.after(outcome.loss, run.spikes, spike is not None)
            if spike is not None:
                self._spiked(spike)
            self.profiler.report()
        self.display.step(number, outcome.loss, run.tokens, seconds, words(used))

    def _skip(self, number: int, error: NonFiniteError) -> None:
        """Leave a batch out, or raise the error if the run does not, or not so often."""
        if error.lasting or not self.run.non_finite.skips(self.past.skipped):
            raise NonFiniteError(f"{error}. {self.past.skipped} batches were left out before it.") from error
        batch = self.step + self.past.passed
        self.metrics.append(kind="skipped", step=number, batch=batch, reason=str(error))
        self.past = self.past.skipping()
        self._say(f"left out batch {batch}: {error}")

    def _spiked(self, spike: Spike) -> None:
        """Say that the newest update had a loss spike, and go back if the run does."""
        target, spikes = self.trainer.regular(self.step), self.run.spikes
        assert spikes is not None, "nobody else looks for spikes"
        self._say(f"step {self.step}: {spike}")
        if target is None:
            self.metrics.append(kind="spike", step=self.step, **asdict(spike))
        elif self.past.rewound < spikes.rewinds:
            self._go_back(target, spike)
        else:
            raise SpikeError(
                f"step {self.step}: {spike}, {self.past.rewound} times gone back already (spikes.most); {REMEDIES}"
            )

    def _go_back(self, target: int, spike: Spike) -> None:
        """Continue from a checkpoint with the batches after the newest one; all after it is forgotten but for a line."""
        origin, spiked, following = checkpoint.directory_of(self.directory, target), self.step, self.step + self.past.passed

        def restore() -> int:
            then = Past.of(checkpoint.verify(origin, (OPTIMISER,), self.ranks).facts.get("past"))
            self.trainer = self.trainer.restored(origin)
            self.past = self.past.back(spiked - target, then)
            self.ranks.first_alone(lambda: self._store_said(self.trainer.retention(self.directory).drop(target)))
            self.metrics.rewind(target)
            return target + then.passed

        first = self.saver.then(restore)
        self.saver.back(target)
        self.step = target
        # The line belongs to the update after the checkpoint: resumed from this checkpoint, the run comes here again.
        facts = {"spiked": spiked, "batch": first, "batches": following - first, **asdict(spike)}
        self.metrics.append(kind="rewound", step=target + 1, **facts)
        self._say(f"went back to step {target}; batches {first} to {following - 1} are left out")

    def _say(self, line: str) -> None:
        self.console.out(line, style="yellow", highlight=False)

    def _shorten_if_late(self, budget: TimeBudget) -> None:
        """Make fewer updates if they would not fit into the minutes, and record it, so that a resumed run does the same."""
        steps = self.ranks.same(lambda: budget.shortened(self.step, self.steps))
        if steps == self.steps:
            return
        with self.stop.held("shortening the run"):
            self.display.shorten(self.step, steps)
            self.metrics.append(kind="shortened", step=self.step, old=self.steps, new=steps)
            self.trainer = self.trainer.changed(steps=steps)
            self.ranks.first_alone(lambda: journal.write_run(self.directory, self.run))
        self._save()

    def _save(self, validation: float | None = None) -> None:
        """Begin to write a checkpoint of the current step, if there is none."""
        if self.saver.begun != self.step:
            self._write(validation)

    def _write(self, validation: float | None = None) -> None:
        step, past = self.step, self.past
        with self.stop.held("saving a checkpoint"):
            self.saver.save(step, lambda take: self.trainer.saving(self.directory, step, validation, past, take))

    def _evaluate_if_due(self) -> None:
        """Evaluate if it is due and not done; the last evaluation comes after the checkpoint and has more tokens."""
        run, last = self.run, self.step == self.steps
        due = self.step > 0 and (last or self.step % run.evaluation.every == 0)
        if not due or self.metrics.evaluated(self.step, last=last):
            return
        rows = windows_of(run, run.evaluation.final_tokens) if last else run.evaluation.batches * run.batch
        held_out = self.trainer.held_out
        self.stop.doing = "evaluating; all updates are saved" if last else "evaluating; what is not saved yet is saved first"
        total = min(rows * held_out.each, held_out.whole)
        with self.display.evaluating(total, held_out.whole, held_out.unit, aloud=last) as progress:

            def done(tokens: int) -> None:
                progress(tokens)
                self.stop.check()

            result = self.trainer.evaluate(rows, done)
        with self.stop.held("saving a checkpoint"):
            if self.saver.begun == self.step:
                self.saver.then(partial(self._told, result.loss))
            elif result.loss < self.metrics.lowest:
                self._save(result.loss)
            self.metrics.append(
                kind="validation", step=self.step, tokens=self.step * run.tokens, last=last, **result.facts, **result.of_experts
            )
        self.display.evaluated(self.step, result.loss)

    def _told(self, loss: float) -> None:
        """Note the loss of the current step in its checkpoint."""
        kept = self.trainer.retention(self.directory)
        self._store_said(kept.note(self.step, loss, self.trainer.regular(self.step + 1)))

    def _costs(self) -> dict[str, Any]:
        """What the newest checkpoint cost that was written since the last line, for a line of the metrics; it is told, too."""
        for cost in (costs := self.saver.costs()):
            self.display.saved(str(cost))
            self._store_said(cost.written.problem)
        return {"saved": costs[-1].figures} if costs else {}

    def _store_said(self, problem: str | None) -> None:
        """Tell of a store that failed; training goes on."""
        if problem is not None:
            self._say(f"not copied to the store: {problem}")

    def _halt(self, stopped: Stopped) -> Trained:
        """Save the current step, and print how to continue."""
        self.stop.clear()
        self._save()
        self.saver.then(self._costs)
        where = "before the first update; nothing was trained yet"
        if self.step:
            where = f"after step {self.step} of {self.steps}; everything trained is saved"
        more = command("train", "--resume", self.directory)
        unbroken(self.console, f"stopped {where}; continue with: {more}")
        return self.trained(stopped.exit_code)

    def _finish(self) -> Trained:
        """Sum up."""
        self.stop.doing = "drawing the picture and summing up; all updates are saved"
        self._costs()
        trained = ended(
            self.directory, self.trainer, self.metrics, machine=self.machine, memory=self.memory, past=self.past,
            waiting=self.saver.waiting(budgets.clock() - self.began),
            deadline=None if self.budget is None else self.budget.began + self.budget.seconds,
        )  # fmt: skip
        self._store_said(self.trainer.retention(self.directory).finish())
        return trained
