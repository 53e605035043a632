"""The training loop: from a `Run` to a directory with checkpoints, metrics and a picture. Resuming continues bit for bit."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from anyformer import checkpoint
from anyformer.data import Batches, Corpus, Tokenizer, interpolated_bigram_loss, prepare
from anyformer.describe import DescriptionError
from anyformer.model import Transformer, build
from anyformer.objectives import Examples
from anyformer.parts.noise import Noise
from anyformer.tally import Shape
from anyformer.training import journal
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.chart import draw_losses
from anyformer.training.display import Display
from anyformer.training.evaluate import Evaluated, evaluate, to_device
from anyformer.training.optimiser import load_state_tensors, state_tensors
from anyformer.training.precision import Machine, default_device, deterministic, measure, resolve
from anyformer.training.run import Run, load_run
from anyformer.training.step import LossFunction, loss_function, update

LONG_STEPS = 200
"""Updates from which compiling pays for itself."""
BASELINE_TOKENS = 20_000_000
"""At most so many of the tokens trained on feed the bigram baseline."""


@dataclass(frozen=True)
class Trained:
    """What a run gives: where it lies, the model, its tokenizer, and what it reached. `finished` is false after Ctrl-C."""

    directory: Path
    model: Transformer
    tokenizer: Tokenizer
    step: int
    finished: bool
    validation: Evaluated | None = None
    baseline: float | None = None


def train(run: Run | str | Path, out: str | Path | None = None, *, console: Console | None = None) -> Trained:
    """Train from the start. `run`: the value, or the path of a TOML file. `out`: the run's directory (default: runs/<time>)."""
    started = time.monotonic()
    console = console or Console()
    run = run if isinstance(run, Run) else load_run(Path(run))
    directory = Path(out) if out is not None else Path("runs") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    if (directory / journal.RUN).exists():
        raise journal.RunDirectoryError(f"{directory}: already holds a run; continue it with --resume, or choose another place")
    machine = measure(default_device())
    plan, notes = resolve(run.plan, machine, long=run.steps is None or run.steps >= LONG_STEPS)
    run = run.but(plan=plan)
    corpus = _corpus(run)
    for line in [*notes, *corpus.summary().splitlines()]:
        console.print(line, highlight=False)
    work = _Work.start(run, corpus, machine)
    if run.steps is None:
        run = run.but(steps=_steps_in(run, work, started), minutes=None)
        work = work.of(run)
    journal.create(directory, run, machine)
    return _go(run, directory, work, machine, console, first=0)


def resume(directory: str | Path, *, console: Console | None = None) -> Trained:
    """Continue the run of a directory from its latest whole checkpoint, to the same bits as if it had never stopped."""
    directory = Path(directory)
    console = console or Console()
    run = journal.read_run(directory)
    machine = measure(default_device())
    corpus = _corpus(run)
    work = _Work.start(run, corpus, machine)
    found, damaged = checkpoint.latest(directory)
    for problem in damaged:
        console.print(f"skipping a damaged checkpoint: {problem}", style="yellow", highlight=False)
    first = 0
    if found is not None:
        first = work.restore(found)
    console.print(f"continuing {directory} after step {first} of {run.steps}", highlight=False)
    journal.rewind(directory, first)
    return _go(run, directory, work, machine, console, first=first)


@dataclass
class _Work:
    """What a running training holds."""

    run: Run
    corpus: Corpus
    model: Transformer
    optimiser: torch.optim.Optimizer
    loss: LossFunction
    batches: Batches

    @staticmethod
    def start(run: Run, corpus: Corpus, machine: Machine) -> _Work:
        keep_freed_memory()
        model = build(run.architecture, run.plan, machine.device, seed=run.seed).train()
        return _Work(
            run,
            corpus,
            model,
            run.optimiser.build(model),
            loss_function(model, run.objective, run.plan),
            Batches(corpus.train, run.length, run.batch, run.seed, run.data.isolate, run.data.sampling),
        )

    def of(self, run: Run) -> _Work:
        """The same work under a run that now knows its steps."""
        return _Work(run, self.corpus, self.model, self.optimiser, self.loss, self.batches)

    def micro_batches(self, step: int) -> tuple[list[Examples], int]:
        """The pieces of the global batch of `step`, and how many valid tokens it has."""
        whole = self.batches.at(step)
        size = self.run.batch // self.run.accumulation
        device = self.model.embedding.weight.device
        pieces = [to_device(whole.slice(at, at + size), device) for at in range(0, self.run.batch, size)]
        return pieces, whole.valid

    def update(self, step: int) -> tuple[float, float, int]:
        """Update number `step` (from 0): loss, gradient norm, valid tokens."""
        run = self.run
        pieces, tokens = self.micro_batches(step)
        rate = run.learning_rate(step)
        outcome = update(
            self.loss, self.model, self.optimiser, pieces, tokens=tokens, seed=run.seed, step=step, rate=rate, clip=run.clip
        )
        return outcome.loss, outcome.gradient_norm, tokens

    def evaluate(self, batches: int | None) -> Evaluated:
        run = self.run
        return evaluate(
            self.model, run.objective, self.corpus.validation, run.plan,
            length=run.length, batch=run.batch, isolate=run.data.isolate, batches=batches,
        )  # fmt: skip

    def save(self, directory: Path, step: int, validation: float | None) -> None:
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
        weights = checkpoint.read(found / "model.safetensors")
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])
        load_state_tensors(self.optimiser, self.model, checkpoint.read(found / "optimiser.safetensors"))
        return int(facts["step"])


def _corpus(run: Run) -> Corpus:
    corpus = prepare(run.data)
    vocab = run.architecture.embedding.vocab
    if corpus.tokenizer.vocab_size > vocab:
        raise DescriptionError(
            f"the tokenizer has {corpus.tokenizer.vocab_size} tokens and the embedding {vocab} rows; "
            f"set embedding.vocab={corpus.tokenizer.vocab_size}"
        )
    return corpus


def _steps_in(run: Run, work: _Work, started: float) -> int:
    """How many updates fit into the run's minutes: a few gradients are timed and thrown away, so that no weight changes."""
    assert run.minutes is not None
    pieces, tokens = work.micro_batches(0)

    def gradients() -> float:
        start = time.monotonic()
        for examples in pieces:
            (work.loss(examples, Noise.at(run.seed, 0, examples.rows)) / tokens).backward()  # type: ignore[no-untyped-call]
        work.optimiser.zero_grad(set_to_none=True)
        return time.monotonic() - start

    with deterministic():
        gradients()
        seconds = min(gradients() for _ in range(3))
    # What is not an update: evaluations, checkpoints, the final look at the whole split and the sample take about a tenth.
    left = run.minutes * 60 - (time.monotonic() - started)
    return max(1, int(0.9 * left / seconds))


def _go(run: Run, directory: Path, work: _Work, machine: Machine, console: Console, *, first: int) -> Trained:
    """Updates `first` + 1 ... `steps`, with evaluations, checkpoints and a clean stop on Ctrl-C."""
    assert run.steps is not None
    shape = Shape(batch=run.batch, length=run.length)
    forward = run.architecture.cost(shape, run.plan).total_flops.dense
    display = Display(console, run.steps, machine.peaks[run.plan.precision], 3 * forward // (run.batch * run.length), first)
    best = min((row["loss"] for row in _rows(directory) if row["kind"] == "validation"), default=float("inf"))
    saved: int | None = first or None
    step = first
    with deterministic(), _interruptible() as interrupted, display:
        for step in range(first + 1, run.steps + 1):
            start = time.monotonic()
            loss, norm, tokens = work.update(step - 1)
            seconds = time.monotonic() - start
            display.step(step, loss, tokens, seconds)
            journal.append(
                directory, kind="train", step=step, loss=loss, gradient_norm=norm, tokens=step * run.batch * run.length,
                learning_rate=run.learning_rate(step - 1), seconds=round(seconds, 4),
            )  # fmt: skip
            validation: float | None = None
            last = step == run.steps
            if last or step % run.evaluation.every == 0:
                looked = work.evaluate(None if last else run.evaluation.batches)
                validation = looked.loss
                display.look(step, looked.loss)
                _note(directory, run, step, looked, whole=last)
            # Read once: a signal between the save and the stop must not end the run on an unsaved step.
            stops = interrupted()
            if last or stops or step % run.checkpoints.every == 0 or (validation is not None and validation < best):
                work.save(directory, step, validation)
                saved = step
            best = min(best, validation if validation is not None else best)
            if stops:
                break
    assert saved == step or step == first, "a run never ends on an unsaved step"
    if step < run.steps:
        console.print(f"stopped after step {step}; continue with: anyformer train --resume {directory}", highlight=False)
        return Trained(directory, work.model, work.corpus.tokenizer, step, finished=False)
    return _finish(run, directory, work)


def _finish(run: Run, directory: Path, work: _Work) -> Trained:
    """The last numbers and the picture."""
    rows = _rows(directory)
    final = [row for row in rows if row["kind"] == "validation"][-1]
    validation = Evaluated(final["loss"], final["validation_tokens"], final["bits_per_byte"])
    baseline: float | None = None
    if run.evaluation.baseline:
        baseline = interpolated_bigram_loss(_seen(work), work.corpus.validation.tokens[:], work.corpus.tokenizer.vocab_size)
    parameters = sum(parameter.numel() for parameter in work.model.parameters())
    title = f"{parameters / 1e6:.1f} M parameters, {run.batch} x {run.length} tokens per step"
    draw_losses(rows, directory / "loss.png", title=title, baseline=baseline)
    assert run.steps is not None
    return Trained(directory, work.model.eval(), work.corpus.tokenizer, run.steps, True, validation, baseline)


def _seen(work: _Work) -> NDArray[np.int64]:
    """The tokens that the run trained on, so that the baseline learns from no more and no less."""
    run, split = work.run, work.corpus.train
    assert run.steps is not None
    if run.steps * run.batch * run.length >= min(len(split), BASELINE_TOKENS):
        return split.tokens[: min(len(split), BASELINE_TOKENS)]
    return np.concatenate([work.batches.at(step).tokens.ravel() for step in range(run.steps)])


def _note(directory: Path, run: Run, step: int, looked: Evaluated, *, whole: bool) -> None:
    journal.append(
        directory, kind="validation", step=step, tokens=step * run.batch * run.length, loss=looked.loss,
        perplexity=looked.perplexity, bits_per_byte=looked.bits_per_byte, validation_tokens=looked.tokens, whole_split=whole,
    )  # fmt: skip


def _rows(directory: Path) -> list[dict[str, Any]]:
    return journal.read_metrics(directory) if (directory / journal.METRICS).exists() else []


@contextmanager
def _interruptible() -> Iterator[Any]:
    """The first Ctrl-C (or a polite kill) asks the loop to save and stop; the second stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        for known in before:
            signal.signal(known, before[known])

    try:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, ask)
    except ValueError:  # signals can be caught in the main thread only; elsewhere the caller's own handling stays
        before = {}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
