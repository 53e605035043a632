"""Training: from a `Run` to a directory with checkpoints, metrics and a picture. Resuming continues bit for bit.

Time. `minutes` limit the whole command. Once the model is built, an update and an evaluation are timed, and the number of
updates that fit into the time left (`budget.fit`) is written into run.toml: from then on the run is as determined as one given
in steps. If the machine gets slower later, the run is shortened: with a checkpoint, the new number of steps in run.toml and a
line in the metrics; the schedule then follows the new total. So a resumed run does the same as the uninterrupted one.

The end. The last weights are saved before the last evaluation, and the first Ctrl-C is obeyed within seconds at any moment: an
update that has changed no weight yet is abandoned, one that has is finished, and then the checkpoint is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.pictures.style import can_draw
from anyformer.stores import is_url
from anyformer.training import budget as budgets
from anyformer.training import journal
from anyformer.training.adapting import check_tuning, learning_line
from anyformer.training.budget import TimeBudget, fit
from anyformer.training.changes import check_changes, check_data, revised
from anyformer.training.compile_trial import with_faster
from anyformer.training.display import COMPILING
from anyformer.training.held_out import corpus_together
from anyformer.training.instability import Past
from anyformer.training.invocation import command
from anyformer.training.judges import check_judges
from anyformer.training.lines import unbroken
from anyformer.training.loggers import check_loggers
from anyformer.training.memory_meter import MemoryMeter, check_memory, room_for_copy
from anyformer.training.parallel import Ranks, check_mesh, joined, mesh_lines
from anyformer.training.partners import check_partners, keep_partners
from anyformer.training.place import check_space
from anyformer.training.precision import Host, check_units, default_device, measured_host, resolve, thread_hint
from anyformer.training.priced import step_of
from anyformer.training.run import Run, load_run
from anyformer.training.session import Session
from anyformer.training.sizing import sized, sizes
from anyformer.training.starting import take
from anyformer.training.stop import Stop, listening
from anyformer.training.store_resume import bring, check_store, home_of, store_of, stored_run
from anyformer.training.summary import update_figures
from anyformer.training.teacher import keep_teacher
from anyformer.training.text_settings import kept_beside
from anyformer.training.timing import timed
from anyformer.training.trained import Trained
from anyformer.training.trainer import OPTIMISER, Trainer

LONG_STEPS, LONG_MINUTES = 200, 2.0
"""Updates, or minutes, from which compiling pays for itself."""


def new_directory() -> Path:
    """`runs/` and the date and time, with a number where a run of the same second has that name."""
    name = Path("runs") / datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return next(place for number in count(1) if not (place := Path(f"{name}-{number}") if number > 1 else name).exists())


def train(
    run: Run | str | Path, out: str | Path | None = None, *, console: Console | None = None, began: float | None = None
) -> Trained:
    """Train from the start.

    `run`: the value, or the path of a TOML file. `out`: the run's directory (default: runs/<time>). `began`: the reading of
    `time.monotonic` from which the run's minutes count. Ctrl-C before the first update raises `Stopped`, a KeyboardInterrupt.
    """
    began = budgets.clock() if began is None else began
    run = run if isinstance(run, Run) else load_run(Path(run))
    for size in sizes(run):
        check_tuning(size.tuning, size.architecture)
    device = default_device()
    with joined(run.plan.mesh, device) as ranks:
        check_mesh(run, ranks)
        ranks.first_alone(lambda: check_loggers(run.loggers))
        directory = ranks.same(lambda: Path(out) if out is not None else new_directory())
        alone = ranks.alone_in(directory, ", or choose another --out", check=journal.check_new)
        with listening(launched=ranks.size > 1) as stop, alone, ranks.console(console, directory) as console:
            stop.doing = "measuring the machine"
            machine = measured_host(device, run.plan)
            budget = None if run.minutes is None else TimeBudget(run.minutes * 60, began)
            left = 0.0 if budget is None else budget.left
            chosen, sizing = ranks.same(partial(sized, run, machine, left, ranks.replicas))
            plan, notes = ranks.same(lambda: resolve(chosen.plan, machine, chosen.tuning.base, long=lasts(chosen)))
            for line in sizing:
                console.out(line, highlight=False)
            notes += thread_hint(chosen.architecture.folded_trained_cost(Shape()).parameters, machine.device)
            memory, trainer = _prepared(
                directory, chosen.but(plan=plan), machine, stop, console, budget, ranks, notes, fresh=True
            )
            if chosen.plan.compile == "auto" and plan.compile == "on" and ranks.size == 1:
                stop.doing = "trying whether compiling pays"
                left = math.inf if budget is None else budget.left
                trainer = with_faster(trainer, lambda line: console.out(line, highlight=False), left)
            if budget is not None:
                trainer = _fitted(directory, trainer, budget, stop, console)
            if chosen.start_from is not None:
                trainer = trainer.changed(data=kept_beside(chosen, directory))
            keep_partners(trainer.run, trainer.partners, directory, ranks)
            if ranks.first:
                keep_teacher(trainer.answers, directory)
                journal.create(directory, trainer.run, machine, trainer.corpus)
            return Session(directory, trainer, machine, memory, console, stop, budget).go()


def resume(
    directory: str | Path,
    changes: Mapping[str, Any] | None = None,
    *,
    console: Console | None = None,
    began: float | None = None,
) -> Trained:
    """Continue the run of a directory from its latest whole checkpoint, to the same bits as if it had never stopped.

    `directory`: or the URL of its copy in a store, from which it is fetched into `runs`, where nothing there is as new.

    `changes`: values by path. `steps` is the new total, `minutes` are added; `evaluation`, `checkpoints` and `sample` may
    change too, but no field that updates are computed with. With another number of steps the learning rate from here on is
    that of a schedule over the new total: after a finished cosine it rises again. A run.toml edited by hand is compared with
    the checkpoint in the same way.
    """
    began, place, device = budgets.clock() if began is None else began, str(directory), default_device()
    stored, directory, home = _stored(place)
    run = revised(stored, {**home, **(changes or {})})
    with (
        joined(run.plan.mesh, device) as ranks,
        listening(launched=ranks.size > 1) as stop,
        ranks.alone_in(directory),
        ranks.console(console, directory) as console,
    ):
        check_mesh(run, ranks)
        ranks.first_alone(lambda: check_loggers(run.loggers))
        skipped = bring(place, directory, stored, ranks) if is_url(place) else []
        newest, damaged = checkpoint.latest(directory, also=(OPTIMISER,), among=ranks)
        for problem in [*skipped, *damaged]:
            console.out(f"skipping a damaged checkpoint: {problem}", style="yellow", highlight=False)
        facts = {} if newest is None else checkpoint.read_manifest(newest).facts
        step = facts.get("step", 0)
        # Before the first update too: prepared text and first weights are those of the run as it was begun.
        before = Run.parse(facts["run"], where=str(newest)) if "run" in facts else stored
        changed = check_changes(before, run, str(directory))
        if run.steps is not None and run.steps < step:
            raise UserError(f"{directory}: {step} updates are done, but steps = {run.steps}: set steps above {step}")
        stop.doing = "measuring the machine"
        machine = measured_host(device, run.plan)
        budget = None if run.minutes is None else TimeBudget(run.minutes * 60, began)
        memory, trainer = _prepared(directory, run, machine, stop, console, budget, ranks, fresh=newest is None, begun=True)
        if newest is not None:
            check_data(journal.read_data_facts(directory) or {"digest": facts.get("data")}, trainer.corpus, str(directory))
            trainer = trainer.restored(newest)
        for line in changed:
            console.out(f"changed after step {step}: {line}", highlight=False)
        if budget is not None:
            trainer = _fitted(directory, trainer, budget, stop, console, step)
        ranks.first_alone(lambda: _cleared(directory, trainer, stored, console, -1 if newest is None else step))
        past = Past.of(facts.get("past"))
        session = Session(directory, trainer, machine, memory, console, stop, budget, step, past)
        if session.complete:
            session.metrics.catch_up()
            more = command("train", "--resume", directory, "--set", f"steps={2 * step}")
            unbroken(console, f"{directory}: all {step} updates are done, nothing to do; for more: {more}")
            return session.trained()
        console.out(f"continuing {directory} after step {step} of {trainer.run.steps}", highlight=False)
        return session.go()


def _stored(place: str) -> tuple[Run, Path, dict[str, str]]:
    """A run as it stands in its directory or its store, the directory in which it goes on, and where its copy is then."""
    if is_url(place):
        return stored_run(place), home_of(place), {"checkpoints.store": store_of(place)}
    return journal.read_run(Path(place)), Path(place), {}


def _cleared(directory: Path, trainer: Trainer, stored: Run, console: Console, step: int) -> None:
    """Take out of the directory what came after the checkpoint of a step, -1 without one, from which the run goes on."""
    checkpoint.sweep(directory)
    for path in checkpoint.set_aside(directory, step):
        console.out(f"kept aside as {path}; delete it when you no longer need it", highlight=False)
    journal.rewind(directory, max(step, 0))
    if trainer.run != stored:
        journal.write_run(directory, trainer.run)


def lasts(run: Run) -> bool:
    """Whether a run goes on for so long that compiling pays for itself."""
    return run.steps >= LONG_STEPS if run.steps is not None else (run.minutes or 0) >= LONG_MINUTES


def _prepared(
    directory: Path,
    run: Run,
    machine: Host,
    stop: Stop,
    console: Console,
    budget: TimeBudget | None,
    ranks: Ranks,
    notes: Sequence[str] = (),
    *,
    fresh: bool,
    begun: bool = False,
) -> tuple[MemoryMeter, Trainer]:
    """The run's data and model, after checking that memory and disk can hold them. `fresh`: with weights of `start_from`."""
    notes = [*mesh_lines(run, ranks), *notes, *check_units(run.plan, machine.device)]
    own = run.but(batch=run.batch // ranks.replicas)  # what one process holds, at most: it may divide weights with others
    check_judges(run.objective.traits.judges)
    if not begun:
        check_partners(run)
    check_memory(own, directory, machine.device, console)
    notes.append(check_space(directory, run))
    ranks.first_alone(lambda: check_store(directory, run, fresh=not begun))
    stop.doing = "preparing the data"
    before = budgets.clock()
    corpus = corpus_together(run, ranks)
    if budget is not None:
        budget.text = budgets.clock() - before
    for line in [*notes, *corpus.summary().splitlines()]:
        console.out(line, highlight=False)
    memory = MemoryMeter(machine.device, room_for_copy(own, directory, machine.device), alone=ranks.size == 1)
    stop.doing = "building the model"
    source = run.start_from

    def given(model: Transformer) -> list[str]:
        return [] if source is None or not fresh else take(model, source, corpus.tokenizer, run.tuning.base, ranks).lines()

    def say(line: str) -> None:
        console.out(line, highlight=False)

    trainer = Trainer.start(run, corpus, machine, given, directory if begun else None, ranks, say)
    learning = [] if run.tuning.everything else [learning_line(trainer.model, run.tuning)]
    for line in [*trainer.left_out, *learning]:
        console.out(line, highlight=False)
    return memory, trainer


def _fitted(directory: Path, trainer: Trainer, budget: TimeBudget, stop: Stop, console: Console, done: int = 0) -> Trainer:
    """The trainer with as many more updates, and as large a last evaluation, as fit into the minutes."""
    run = trainer.run
    stop.doing = "timing an update"
    if run.plan.compile == "on" and not trainer.passes.made:
        stop.doing = "compiling"
        console.out(COMPILING, highlight=False)
    # Done now, so that its time counts: work of the end that does not depend on the updates.
    update_figures(step_of(run, directory), run.piece, run.accumulation, run.plan)
    if can_draw():
        import_module("matplotlib.figure")
    durations = timed(trainer, budget.left)
    fitted = trainer.ranks.same(lambda: fit(run, durations, budget.left))
    budget.tail = fitted.tail
    if budget.left - fitted.tail < durations.update:
        spent = budget.seconds - budget.left
        kept = ". The next run will reuse the tokens" if budget.text > spent / 2 else ""
        console.out(
            f"minutes = {budget.seconds / 60:g} are {budget.seconds:.0f} s, and {spent:.0f} s went before the first update, "
            f"{budget.text:.0f} s of them to prepare the text: one update only{kept}",
            highlight=False,
        )
    evaluation = run.evaluation
    if fitted.tokens < evaluation.final_tokens:
        evaluation = evaluation.but(final_tokens=fitted.tokens)
    return trainer.changed(steps=done + fitted.steps, minutes=None, evaluation=evaluation)
