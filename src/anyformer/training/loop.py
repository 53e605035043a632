"""The training loop: from a `Run` to a directory with checkpoints, metrics and a picture. Resuming continues bit for bit."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer import checkpoint
from anyformer.data import Tokenizer, interpolated_bigram_loss
from anyformer.model import Transformer
from anyformer.tally import Shape
from anyformer.training import journal
from anyformer.training.chart import draw_losses
from anyformer.training.display import Display
from anyformer.training.evaluate import Evaluated
from anyformer.training.memory import MemoryMeter
from anyformer.training.optimiser import refuse_unbuilt
from anyformer.training.precision import Machine, default_device, deterministic, measure, resolve
from anyformer.training.run import Run, load_run
from anyformer.training.summary import Summary, summarise
from anyformer.training.work import Work, corpus_of

LONG_STEPS = 200
"""Updates from which compiling pays for itself."""


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
    summary: Summary | None = None
    """What was predicted beside what was measured, once it is finished."""


def train(run: Run | str | Path, out: str | Path | None = None, *, console: Console | None = None) -> Trained:
    """Train from the start. `run`: the value, or the path of a TOML file. `out`: the run's directory (default: runs/<time>)."""
    started = time.monotonic()
    console = console or Console()
    run = run if isinstance(run, Run) else load_run(Path(run))
    refuse_unbuilt(run)
    directory = Path(out) if out is not None else Path("runs") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    if (directory / journal.RUN).exists():
        raise journal.RunDirectoryError(f"{directory}: already holds a run; continue it with --resume, or choose another place")
    machine = measure(default_device())
    plan, notes = resolve(run.plan, machine, long=run.steps is None or run.steps >= LONG_STEPS)
    run = run.but(plan=plan)
    corpus = corpus_of(run)
    for line in [*notes, *corpus.summary().splitlines()]:
        console.out(line, highlight=False)
    memory = MemoryMeter(machine.device)
    work = Work.start(run, corpus, machine)
    if run.steps is None:
        work = work.fitted(started)
    journal.create(directory, work.run, machine)
    return _go(directory, work, machine, memory, console, first=0)


def resume(directory: str | Path, *, console: Console | None = None) -> Trained:
    """Continue the run of a directory from its latest whole checkpoint, to the same bits as if it had never stopped."""
    directory = Path(directory)
    console = console or Console()
    run = journal.read_run(directory)
    machine = measure(default_device())
    corpus = corpus_of(run)
    memory = MemoryMeter(machine.device)
    work = Work.start(run, corpus, machine)
    found, damaged = checkpoint.latest(directory)
    for problem in damaged:
        console.out(f"skipping a damaged checkpoint: {problem}", style="yellow", highlight=False)
    first = 0
    if found is not None:
        first = work.restore(found)
    console.out(f"continuing {directory} after step {first} of {run.steps}", highlight=False)
    journal.rewind(directory, first)
    return _go(directory, work, machine, memory, console, first=first)


def _go(directory: Path, work: Work, machine: Machine, memory: MemoryMeter, console: Console, *, first: int) -> Trained:
    """Updates `first` + 1 ... `steps`, with evaluations, checkpoints and a clean stop on Ctrl-C."""
    run = work.run
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
            with memory.watching(step - first, work.model, work.optimiser):
                outcome, tokens = work.update(step - 1)
            seconds = time.monotonic() - start
            display.step(step, outcome.loss, tokens, seconds)
            # Of each layer the largest share, and with a capacity what was dropped; all shares stand in evaluations.
            experts = {
                path: {"largest": max(load.shares), "dropped": load.dropped_share} for path, load in outcome.loads.items()
            }
            journal.append(
                directory, kind="train", step=step, loss=outcome.loss, gradient_norm=outcome.gradient_norm,
                tokens=step * run.batch * run.length, learning_rate=run.learning_rate(step - 1), seconds=round(seconds, 4),
                **({"experts": experts} if experts else {}),
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
        console.out(f"stopped after step {step}; continue with: anyformer train --resume {directory}", highlight=False)
        return Trained(directory, work.model, work.corpus.tokenizer, step, finished=False)
    return _finish(directory, work, machine, memory)


def _finish(directory: Path, work: Work, machine: Machine, memory: MemoryMeter) -> Trained:
    """The last numbers and the picture."""
    run = work.run
    rows = _rows(directory)
    final = [row for row in rows if row["kind"] == "validation"][-1]
    validation = Evaluated(final["loss"], final["validation_tokens"], final["bits_per_byte"])
    baseline: float | None = None
    if run.evaluation.baseline:
        baseline = interpolated_bigram_loss(work.seen(), work.corpus.validation.tokens[:], work.corpus.tokenizer.vocab_size)
    parameters = sum(parameter.numel() for parameter in work.model.parameters())
    made = (
        f"{parameters / 1e6:.1f} M parameters, {run.architecture.output_stack.depth} layers of width {run.architecture.width}"
    )
    title = f"{directory.resolve().name}: {made}, {run.batch} x {run.length} tokens per step"
    draw_losses(rows, directory / "loss.png", title=title, baseline=baseline)
    summary = summarise(run, machine, rows, memory)
    journal.write_whole(directory / journal.SUMMARY, json.dumps(summary.data(), indent=2) + "\n")
    assert run.steps is not None
    return Trained(directory, work.model.eval(), work.corpus.tokenizer, run.steps, True, validation, baseline, summary)


def _note(directory: Path, run: Run, step: int, looked: Evaluated, *, whole: bool) -> None:
    experts = {path: {"shares": load.shares, "dropped": load.dropped_share} for path, load in looked.loads.items()}
    journal.append(
        directory, kind="validation", step=step, tokens=step * run.batch * run.length, loss=looked.loss,
        perplexity=looked.perplexity, bits_per_byte=looked.bits_per_byte, validation_tokens=looked.tokens, whole_split=whole,
        **({"experts": experts} if experts else {}),
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
