"""A study from its value to the outcomes of all its trials, in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from anyformer.costs.available import free_memory
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.describe import UserError, from_toml, to_toml
from anyformer.files import check_parents, disk_errors, locked, read_text, write_text
from anyformer.plan import Plan
from anyformer.precision import Auto
from anyformer.studies.arms import ResolvedArm, resolve_arms, smaller_arms
from anyformer.studies.engines import engine_of
from anyformer.studies.forecast import cores, predicted_bytes
from anyformer.studies.live import watching
from anyformer.studies.matched_time import kept_in
from anyformer.studies.outcome import TrialOutcome
from anyformer.studies.runner import Room, Runner, place_of
from anyformer.studies.study import Study
from anyformer.studies.trials import StudyStage, Trial, sizes_of, stage
from anyformer.training.loop import lasts
from anyformer.training.precision import default_device, measured_host, resolve

STUDY, PLAN = "study.toml", "plan.toml"
MOST = 10_000
"""Trials that an engine is given at a time."""
SHARE = 0.9
"""Share of the free memory that trials may take together."""


class StudyDirectoryError(UserError):
    """A directory is not one for a study."""


@dataclass(frozen=True)
class Ran:
    """A study whose trials have all ended: its arms, those that passed its gates, trials, and outcomes by key; `smaller`: all
    arms at every smaller size, `left_out`: those that did not pass."""

    study: Study
    directory: Path
    arms: tuple[ResolvedArm, ...]
    stage: StudyStage
    outcomes: Mapping[str, TrialOutcome]
    smaller: Mapping[float, tuple[ResolvedArm, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def place(self, trial: Trial) -> Path:
        """The directory of a trial."""
        return place_of(self.directory, trial)


def prepared(study: Study, directory: Path) -> Study:
    """The study with every `auto` of the base's plan decided, once for this directory, and written there."""
    check_parents(directory)
    if directory.is_dir() and not (directory / STUDY).exists() and any(each.name != ".lock" for each in directory.iterdir()):
        raise StudyDirectoryError(
            f"{directory}: holds other files, and no {STUDY}; give the directory of a study, or a new one"
        )
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / ".lock"):
        plan = study.base.plan
        if plan.precision == Auto() or plan.compile == "auto":
            if not (directory / PLAN).exists():
                found, _ = resolve(plan, measured_host(default_device(), plan), study.base.tuning.base, long=lasts(study.base))
                write_text(directory / PLAN, to_toml(found))
            kept = from_toml(Plan, read_text(directory / PLAN, StudyDirectoryError), str(directory / PLAN))
            plan = decided_as(plan, kept)
        study = study.but(base=study.base.but(plan=plan))
        write_text(directory / STUDY, to_toml(study))
    return study


def decided_as(plan: Plan, other: Plan) -> Plan:
    """The plan, with what it leaves to be measured as in another one, so that all trials are computed alike."""
    precision = other.precision if plan.precision == Auto() else plan.precision
    return plan.but(precision=precision, compile=other.compile if plan.compile == "auto" else plan.compile)


def room_of(study: Study, arms: tuple[ResolvedArm, ...], jobs: int | None = None) -> Room:
    """What the trials may take of this machine. Raises `NotEnoughMemoryError` where one alone does not fit.

    `jobs`: trials side by side, at most; by default as many as there are cores for their threads.
    """
    device = default_device()
    memory = int(SHARE * free_memory(device))
    needed = {arm.name: predicted_bytes(arm.run, device.type) for arm in arms}
    for name, size in needed.items():
        if size > memory / SHARE:
            raise NotEnoughMemoryError(
                f"arms.{name}: a trial needs {size / 1e9:.1f} GB, and {memory / SHARE / 1e9:.1f} GB are free: set a "
                "smaller batch, accumulation or plan.checkpointing in the base"
            )
    slots = max(1, cores() // study.threads) if jobs is None else jobs
    return Room(slots, memory, lambda trial: needed[trial.arm])


def run_study(
    study: Study,
    directory: Path,
    *,
    jobs: int | None = None,
    console: Console | None = None,
    engine: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Ran:
    """Run the trials that are not there yet. Ctrl-C raises `Stopped`; the same call goes on, in this process or another.

    `engine`: of `engines.ENGINES`, with its `options`; it has its own cores and memory, so that only `jobs` bounds how many
    trials it has at a time.
    """
    console = console or Console(stderr=True)
    study = prepared(study, directory)
    arms, smaller = decided_arms(study, directory)
    launch = engine_of(engine, directory, options)
    room = room_of(study, arms, jobs) if engine is None else Room(jobs or MOST, 0, lambda trial: 0)
    due = partial(stage, study, arms, default_device().type, smaller=smaller)
    with watching(directory, console, room.slots, study.metric) as watcher:
        runner = Runner(directory, due, room, watcher)
        if engine is not None:
            runner.launch = launch
        found, outcomes = runner.go()
    left_out = tuple(name for gate in found.gates for name in gate.left_out)
    there = tuple(arm for arm in arms if arm.name not in left_out)
    return Ran(study, directory, there, found, outcomes, smaller, left_out)


def decided_arms(
    study: Study, directory: Path | None = None
) -> tuple[tuple[ResolvedArm, ...], dict[float, tuple[ResolvedArm, ...]]]:
    """The arms at the whole size and at every smaller one, computed as the base is; those that are to take as long as the base
    are measured, in the study's directory."""
    timed = None if directory is None or study.match is None or not study.match.timed else kept_in(study, directory)
    arms = resolve_arms(study, timed)
    smaller = {size: smaller_arms(study, arms, size) for size in sizes_of(study)}

    def decided(some: tuple[ResolvedArm, ...]) -> tuple[ResolvedArm, ...]:
        return tuple(replace(arm, run=arm.run.but(plan=decided_as(arm.run.plan, study.base.plan))) for arm in some)

    return decided(arms), {size: decided(some) for size, some in smaller.items()}
