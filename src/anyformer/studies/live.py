"""How a study goes on: one table on a terminal, a line for each trial that ends elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anyformer.studies.outcome import Outcome, pace
from anyformer.studies.runner import TRIALS, Watcher
from anyformer.studies.trials import Stage, Trial
from anyformer.training.journal import read_metrics

REFRESH = 1.0
"""Seconds between two pictures of the table."""


@contextmanager
def watching(directory: Path, console: Console, slots: int, metric: str) -> Iterator[Watcher]:
    """A watcher that draws a table on a terminal, and prints a line for each trial that ends elsewhere."""
    view = View(directory, slots, metric)
    if not console.is_terminal:

        def tell(stage: Stage, outcomes: Mapping[str, Outcome], running: Mapping[str, Trial]) -> None:
            for line in view.ended(stage, outcomes, running):
                console.out(line, highlight=False)

        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        last = 0.0

        def draw(stage: Stage, outcomes: Mapping[str, Outcome], running: Mapping[str, Trial]) -> None:
            nonlocal last
            for line in view.ended(stage, outcomes, running):
                live.console.out(line, highlight=False)
            if time.monotonic() - last > REFRESH:
                last = time.monotonic()
                live.update(view.table(stage, outcomes, running), refresh=True)

        yield draw


@dataclass
class View:
    """What there is to see; `told`: keys of the trials whose end was told."""

    directory: Path
    slots: int
    metric: str
    told: set[str] = field(default_factory=set)
    _began: bool = field(default=False, init=False)

    def ended(self, stage: Stage, outcomes: Mapping[str, Outcome], running: Mapping[str, Trial]) -> Iterator[str]:
        """A line for each trial that ended since the last call, and one for those that had ended before the first."""
        new = {trial.key: trial for trial in stage.trials if trial.key in outcomes and trial.key not in self.told}
        self.told |= new.keys()
        if not self._began:
            self._began = True
            if new:
                yield f"{len(new)} trials were there already"
            return
        for trial in new.values():
            outcome = outcomes[trial.key]
            yield f"{len(self.told)} of {len(_keys(stage))}  {trial.name}  {ending(outcome, self.metric)}"

    def table(self, stage: Stage, outcomes: Mapping[str, Outcome], running: Mapping[str, Trial]) -> Group:
        """Trials that run, and how many there are in all."""
        shown = Table(box=None, pad_edge=False)
        for column in ("trial", "update", "loss", "left"):
            shown.add_column(column, justify="left" if column == "trial" else "right")
        for trial in running.values():
            rows = read_metrics(self.directory / TRIALS / trial.name)
            losses = [row["loss"] for row in rows if row["kind"] == "train"]
            done, each = pace(self.directory / TRIALS / trial.name)
            steps = trial.run.steps or 0
            shown.add_row(
                trial.name,
                f"{done:,}/{steps:,}",
                f"{losses[-1]:.3f}" if losses else "-",
                in_time((steps - done) * each) if each else "-",
            )
        keys = _keys(stage)
        failed = sum(outcomes[key].status != "finished" for key in keys if key in outcomes)
        done = sum(key in outcomes for key in keys)
        left = self.left(stage, outcomes, running)
        more = "" if stage.final else ", then the final ones"
        facts = f"{done} of {len(keys)} trials{more}" + (f", {failed} did not finish" if failed else "")
        return Group(Text(facts + ("" if left is None else f"; about {in_time(left)} left for these")), shown)

    def left(self, stage: Stage, outcomes: Mapping[str, Outcome], running: Mapping[str, Trial]) -> float | None:
        """Seconds until all trials known so far have ended, from the pace of updates so far; None before there is one."""
        paces: dict[str, list[float]] = {}
        due = {trial.key: trial for trial in stage.trials if trial.key not in outcomes}
        for trial in stage.trials:
            if (outcome := outcomes.get(trial.key)) is not None and outcome.updates:
                paces.setdefault(trial.arm, []).append(outcome.seconds / outcome.updates)
        made = {}
        for key, trial in running.items():
            made[key], each = pace(self.directory / TRIALS / trial.name)
            if each:
                paces.setdefault(trial.arm, []).append(each)
        if not paces:
            return None
        means = {arm: sum(found) / len(found) for arm, found in paces.items()}
        usual = sum(means.values()) / len(means)
        work = sum(((trial.run.steps or 0) - made.get(key, 0)) * means.get(trial.arm, usual) for key, trial in due.items())
        return work / max(1, min(self.slots, len(due)))


def ending(outcome: Outcome, metric: str) -> str:
    """How a trial ended, in a few words."""
    if outcome.status == "finished":
        return f"{metric} {outcome.number(metric, 0.0):.4f}"
    return f"{outcome.status}: {outcome.reason.splitlines()[0] if outcome.reason else ''}"


def in_time(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _keys(stage: Stage) -> set[str]:
    return {trial.key for trial in stage.trials}
