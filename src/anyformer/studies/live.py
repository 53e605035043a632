"""How a study goes on: one table on a terminal, a line per trial that ends elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anyformer.costs.figures import in_time
from anyformer.studies.outcome import TrialOutcome, TrialPace, pace
from anyformer.studies.runner import Watcher, place_of
from anyformer.studies.trials import StudyStage, Trial

REFRESH = 1.0
"""Seconds between two pictures of the table."""


@contextmanager
def watching(directory: Path, console: Console, slots: int, metric: str) -> Iterator[Watcher]:
    """A watcher that draws a table on a terminal, and prints a line per trial that ends elsewhere."""
    view = View(directory, slots, metric)
    if not console.is_terminal:

        def tell(stage: StudyStage, outcomes: Mapping[str, TrialOutcome], running: Mapping[str, Trial]) -> None:
            for line in view.ended(stage, outcomes, running):
                console.out(line, highlight=False)

        yield tell
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        last = 0.0

        def draw(stage: StudyStage, outcomes: Mapping[str, TrialOutcome], running: Mapping[str, Trial]) -> None:
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

    def ended(self, stage: StudyStage, outcomes: Mapping[str, TrialOutcome], running: Mapping[str, Trial]) -> Iterator[str]:
        """A line per trial that ended since the last call, and one for those that had ended before the first."""
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

    def table(self, stage: StudyStage, outcomes: Mapping[str, TrialOutcome], running: Mapping[str, Trial]) -> Group:
        """Trials that run, and how many there are in all."""
        shown = Table(box=None, pad_edge=False)
        for column in ("trial", "update", "loss", "left"):
            shown.add_column(column, justify="left" if column == "trial" else "right")
        paces = {key: pace(place_of(self.directory, trial)) for key, trial in running.items()}
        for key, trial in running.items():
            here, steps = paces[key], trial.run.steps or 0
            loss = "-" if here.loss is None else f"{here.loss:.3f}"
            left = in_time((steps - here.updates) * here.seconds) if here.seconds else "-"
            shown.add_row(trial.name, f"{here.updates:,}/{steps:,}", loss, left)
        keys = _keys(stage)
        failed = sum(outcomes[key].status != "finished" for key in keys if key in outcomes)
        done = sum(key in outcomes for key in keys)
        whole = self.left(stage, outcomes, running, paces)
        more = "" if stage.final else ", then the final ones"
        facts = f"{done} of {len(keys)} trials{more}" + (f", {failed} did not finish" if failed else "")
        return Group(Text(facts + ("" if whole is None else f"; about {in_time(whole)} left for these")), shown)

    def left(
        self,
        stage: StudyStage,
        outcomes: Mapping[str, TrialOutcome],
        running: Mapping[str, Trial],
        now: Mapping[str, TrialPace],
    ) -> float | None:
        """Seconds until all trials known so far have ended, from the pace of updates so far; None before there is one."""
        arms: dict[str, list[float]] = {}
        due = {trial.key: trial for trial in stage.trials if trial.key not in outcomes}
        for trial in stage.trials:
            if (outcome := outcomes.get(trial.key)) is not None and outcome.updates:
                arms.setdefault(trial.arm, []).append(outcome.seconds / outcome.updates)
        for key, trial in running.items():
            if now[key].seconds:
                arms.setdefault(trial.arm, []).append(now[key].seconds)
        if not arms:
            return None
        means = {arm: fmean(found) for arm, found in arms.items()}
        usual = fmean(means.values())
        made = {key: here.updates for key, here in now.items()}
        work = sum(((trial.run.steps or 0) - made.get(key, 0)) * means.get(trial.arm, usual) for key, trial in due.items())
        return work / max(1, min(self.slots, len(due)))


def ending(outcome: TrialOutcome, metric: str) -> str:
    """How a trial ended, in a few words."""
    if outcome.status == "finished":
        return f"{metric} {outcome.number(metric, 0.0):.4f}"
    return f"{outcome.status}: {outcome.reason.splitlines()[0] if outcome.reason else ''}"


def _keys(stage: StudyStage) -> set[str]:
    return {trial.key for trial in stage.trials}
