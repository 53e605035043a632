"""Trials side by side, each a process, within the machine's cores and memory; what ended is never run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from anyformer.describe import UserError
from anyformer.files import disk_errors
from anyformer.studies.lengths import left_to_ask
from anyformer.studies.outcome import Ended, TrialOutcome, read_outcome
from anyformer.studies.process import HELD, holding, lay_out
from anyformer.studies.trials import DIGITS, StudyStage, Trial
from anyformer.training.stop import Stopped, listening

PAUSE = 0.2
"""Seconds between two looks at the processes."""
TRIALS, OUTPUT = "trials", "output.txt"
LAST_LINES = 3


@dataclass(frozen=True)
class Room:
    """What trials may take of the machine together: `slots` trials at a time, `memory` bytes; one may always run."""

    slots: int
    memory: int
    bytes_of: Callable[[Trial], int]

    def holds(self, running: Mapping[str, Trial], trial: Trial) -> bool:
        """Whether a trial may start beside those that run."""
        if not running:
            return True
        taken = sum(self.bytes_of(each) for each in running.values())
        return len(running) < self.slots and taken + self.bytes_of(trial) <= self.memory


class Watcher(Protocol):
    """Who is told how a study goes on."""

    def __call__(self, stage: StudyStage, outcomes: Mapping[str, TrialOutcome], running: Mapping[str, Trial]) -> None: ...


class Launched(Protocol):
    """A trial that was started, here or by an engine."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs, or waits to."""
        ...

    def send_signal(self, sig: int, /) -> None: ...

    def wait(self) -> int: ...


def place_of(study: Path, trial: Trial) -> Path:
    """The directory of a trial in that of its study: the one that ends in its key, also where the arm was called otherwise."""
    trials = study / TRIALS
    return next(iter(sorted(trials.glob(f"*-{trial.key[:DIGITS]}"))), trials / trial.name)


def process_of(directory: Path, threads: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """The process of a trial, in a session of its own: Ctrl-C in a terminal is the study's to hear."""
    words = [sys.executable, "-m", "anyformer.studies.process", str(directory)]
    count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **count},
        start_new_session=True,
    )  # fmt: skip


@dataclass
class Runner:
    """The trials of a study in its directory; `stage`: what is needed, by the outcomes so far."""

    directory: Path
    stage: Callable[[Mapping[str, TrialOutcome]], StudyStage]
    room: Room
    watcher: Watcher = lambda stage, outcomes, running: None
    launch: Callable[[Path, int, IO[bytes]], Launched] = process_of
    """Starts the process of a trial: its directory, its threads, and where it writes."""
    pause: float = PAUSE
    outcomes: dict[str, TrialOutcome] = field(default_factory=dict)
    _processes: dict[str, tuple[Trial, Launched]] = field(default_factory=dict, init=False)
    _elsewhere: dict[str, Trial] = field(default_factory=dict, init=False)
    _known: tuple[int, StudyStage] = field(default=(-1, StudyStage()), init=False)

    def go(self) -> tuple[StudyStage, Mapping[str, TrialOutcome]]:
        """Run all trials that are needed, to the end. Ctrl-C stops and saves each of them, and raises `Stopped`."""
        with disk_errors(self.directory):
            (self.directory / TRIALS).mkdir(parents=True, exist_ok=True)
        with listening(), self._ending():
            while True:
                due = self._due()
                if not due and not self._processes:
                    self.watcher(self._now(), self.outcomes, {})
                    return self._now(), self.outcomes
                waiting = [trial for trial in due if trial.key not in self._processes]
                self._elsewhere = {trial.key: trial for trial in waiting if self._held(trial)}
                for trial in waiting:
                    if trial.key not in self._elsewhere and self.room.holds(self.running, trial):
                        self._start(trial)
                self.watcher(self._now(), self.outcomes, self.running)
                time.sleep(self.pause)
                self._collect()

    @property
    def running(self) -> dict[str, Trial]:
        """Trials that run now, here or in another process on this study."""
        return {**{key: trial for key, (trial, _) in self._processes.items()}, **self._elsewhere}

    def _due(self) -> list[Trial]:
        """Trials that have no outcome yet, each once; those that ended meanwhile, elsewhere too, are read."""
        while True:
            trials = {trial.key: trial for trial in self._now().trials if trial.key not in self.outcomes}
            found = {key: outcome for key, trial in trials.items() if (outcome := self._read(trial)) is not None}
            if not found:
                return list(trials.values())
            self.outcomes |= found

    def _read(self, trial: Trial) -> TrialOutcome | None:
        """The outcome of a trial that ended; a trial that failed in an earlier process is tried again, and one
        that was not asked at all lengths has none yet."""
        directory = self.place(trial)
        ended = Ended.read(directory, trial.key)
        if ended is None or ended.status == "failed":
            return None
        if ended.status == "finished" and left_to_ask(directory, trial.lengths):
            return None
        return read_outcome(directory, ended)

    def place(self, trial: Trial) -> Path:
        """The directory of a trial."""
        return place_of(self.directory, trial)

    def _now(self) -> StudyStage:
        """What is needed by the outcomes so far, which only ever become more."""
        count, known = self._known
        if count != len(self.outcomes):
            self._known = len(self.outcomes), (known := self.stage(self.outcomes))
        return known

    def _held(self, trial: Trial) -> bool:
        """Whether another process on this study has the trial."""
        with holding(self.place(trial)) as free:
            return not free

    def _start(self, trial: Trial) -> None:
        directory = self.place(trial)
        try:
            lay_out(trial, directory)
            with disk_errors(directory / OUTPUT), (directory / OUTPUT).open("ab") as output:
                self._processes[trial.key] = trial, self.launch(directory, trial.threads, output)
        except UserError as error:  # a full disk costs this trial alone
            self.outcomes[trial.key] = TrialOutcome("failed", str(error))

    def _collect(self) -> None:
        """Take note of processes that ended."""
        for key, (trial, process) in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[key]
            ended = Ended.read(self.place(trial), key)
            if ended is not None:
                self.outcomes[key] = read_outcome(self.place(trial), ended)
            elif code != HELD:  # which another process may have been quicker to take
                self.outcomes[key] = TrialOutcome("failed", _reason(code, self.place(trial)))

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Within, trials run; none goes on after it: a trial that is stopped saves what it has."""
        try:
            yield
        except Stopped as stopped:
            raise Stopped(stopped.exit_code - 128, "running trials; all are saved, and the same command goes on") from None
        finally:
            for _, process in self._processes.values():
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
            for _, process in self._processes.values():
                process.wait()


def _reason(code: int, directory: Path) -> str:
    """Why a process ended that wrote no outcome: its signal, or the last lines that it printed."""
    if code < 0:
        hint = ": by the system, if memory ran out" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{hint}"
    try:
        lines = (directory / OUTPUT).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return f"ended with code {code}: {' / '.join(lines[-LAST_LINES:]) or 'it printed nothing'}"
