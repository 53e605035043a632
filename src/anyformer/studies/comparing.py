"""`compare`: a study from its file to its report; and what it would take, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from anyformer.describe import UserError
from anyformer.pictures.style import check_can_draw
from anyformer.studies.arms import ResolvedArm, resolve_arms, smaller_arms
from anyformer.studies.charts import draw
from anyformer.studies.findings import REPORT, Findings
from anyformer.studies.forecast import predicted_bytes, predicted_seconds, this_machine
from anyformer.studies.judging import told
from anyformer.studies.page import PAGE, write_page
from anyformer.studies.reading import load_study
from anyformer.studies.running import room_of, run_study
from anyformer.studies.study import Study
from anyformer.studies.trials import WHOLE, sizes_of
from anyformer.studies.words import write_markdown

MARKDOWN = "report.md"


def compare(
    study: Study | str | Path,
    out: str | Path = "study",
    *,
    jobs: int | None = None,
    console: Console | None = None,
    engine: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Findings:
    """Train every arm of a study as often as it says, and report which are better.

    `study`: the value, or the path of a TOML file. `out`: its directory, in which finished trials are found again. `jobs`:
    trials side by side, by default as many as cores and memory allow; it changes no number. `engine`: `ray` or `slurm`, with
    its `options`; by default processes of this machine. Raises `UserError` for a study that cannot be run, before any work, and
    `Stopped`, a KeyboardInterrupt, at Ctrl-C.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs should be at least 1, got {jobs}")
    check_can_draw("a study's report")
    value = study if isinstance(study, Study) else load_study(study)
    ran = run_study(value, Path(out), jobs=jobs, console=console, engine=engine, options=options)
    found = told(ran)
    report(found, Path(out))
    return found


def report(found: Findings, directory: Path) -> None:
    """Write the report: numbers, pictures, words."""
    found.write(directory / REPORT)
    write_markdown(found, directory / MARKDOWN, draw(found, directory))
    write_page(found, directory / PAGE)


@dataclass(frozen=True)
class Expected:
    """What an arm would take: predicted bytes and seconds of one trial, and the number of its trials; tuning may add more."""

    arm: ResolvedArm
    parameters: int
    bytes: int
    seconds: float
    trials: int


@dataclass(frozen=True)
class StudyForecast:
    """What a study would take on this machine, `slots` trials side by side."""

    study: Study
    arms: Sequence[Expected]
    slots: int

    @property
    def seconds(self) -> float:
        """Until the end, without what widened grids add."""
        return sum(each.seconds * each.trials for each in self.arms) / self.slots


def forecast(study: Study, *, jobs: int | None = None) -> StudyForecast:
    """The trials of a study with their matched sizes, predicted memory and time; nothing is trained or written."""
    arms = resolve_arms(study)
    room = room_of(study, arms, jobs)
    hardware = this_machine(study.threads)
    found = []
    for size, counts in _trials(study, len(arms)).items():
        there = arms if size == WHOLE else smaller_arms(study, arms, size)
        for arm, trials in zip(there, counts, strict=True):
            if trials:
                seconds = predicted_seconds(arm.run, hardware)
                found.append(Expected(arm, arm.parameters, predicted_bytes(arm.run), seconds, trials))
    return StudyForecast(study, found, _side_by_side(room.slots, room.memory, found))


def _trials(study: Study, arms: int) -> dict[float, list[int]]:
    """For each size, largest first, the number of trials of each of so many arms; as if the first passed its gates."""
    tuned = 0 if study.tuning is None else len(study.tuning.values) * len(study.tuning.seeds)
    only = None if study.tuning is None else study.tuning.size
    rungs = {WHOLE, *(() if study.ladder is None else study.ladder.sizes)}
    found = {size: [0] * arms for size in sorted({*rungs, *sizes_of(study)}, reverse=True)}

    def add(size: float, trials: int) -> None:
        found[size] = [count + trials * (number < left) for number, count in enumerate(found[size])]

    left = arms
    for gate in study.gates:
        add(gate.size, max(tuned, 1))
        left = min(left, gate.keep + 1)
    for size in rungs:
        add(size, len(study.seeds))
    gates = {gate.size for gate in study.gates}  # where the same trials were made already
    for size in (rungs if only is None else {only}) - gates:
        add(size, tuned)
    return found


def _side_by_side(slots: int, memory: int, expected: Sequence[Expected]) -> int:
    """Trials that fit side by side, each taken for the largest."""
    return max(1, min(slots, memory // max(each.bytes for each in expected)))
