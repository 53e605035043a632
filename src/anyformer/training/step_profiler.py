"""Traces of the updates that `plan.profile` names: the files of each process, and a table of the first one's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from rich.console import Console
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from anyformer.files import disk_errors, write_text
from anyformer.training.measured_hardware import known
from anyformer.training.operation_times import Times, measured, predicted, table
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.precision import Host
from anyformer.training.run import Run

FOLDER = "profile"
TABLE = "operations.json"


@dataclass(frozen=True)
class Trace:
    """A traced update: what the profiler saw in so many seconds, and how many of them this process waited for others."""

    step: int
    seen: profile
    seconds: float
    waited: float


@dataclass
class StepProfiler:
    """Of one process of a run; does nothing without `plan.profile`."""

    run: Run
    directory: Path
    machine: Host
    ranks: Ranks
    console: Console
    _newest: Trace | None = field(default=None, init=False)
    _times: dict[int, Times] = field(default_factory=dict, init=False)
    """Of every update that was traced, by its number."""

    @contextmanager
    def around(self, step: int) -> Iterator[None]:
        """Around update number `step` (from 1)."""
        wanted = self.run.plan.profile
        if wanted is None or step not in wanted.steps:
            yield
            return
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._gpu else [])]
        before, start = self.ranks.waited(), time.perf_counter()
        with profile(activities=activities) as seen:
            yield
            seconds = time.perf_counter() - start
        self._newest = Trace(step, seen, seconds, self.ranks.waited() - before)

    def report(self) -> None:
        """Write the trace of the newest update if there is one, and tell the mean of all so far beside the prediction."""
        if self._newest is None:
            return
        newest, self._newest = self._newest, None
        file = self.directory / FOLDER / f"step-{newest.step:08d}" / f"rank{self.ranks.rank}.json.gz"
        with disk_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            newest.seen.export_chrome_trace(str(file))
        self._times[newest.step] = measured(_events(newest.seen), newest.seconds, newest.waited, gpu=self._gpu)
        if not self.ranks.first:
            return
        found: Times = {kind: mean(each[kind] for each in self._times.values()) for kind in self._times[newest.step]}
        hardware = known(self.machine.device)
        expected = predicted(self.run, hardware, self.ranks.size)
        kinds = {kind: {"predicted": expected.get(kind), "measured": seconds} for kind, seconds in found.items()}
        facts = {"steps": [*self._times], "hardware": hardware.name, "seconds": kinds}
        write_text(self.directory / FOLDER / TABLE, json.dumps(facts, indent=1) + "\n")
        self.console.out(f"step {newest.step} is traced: {file}", highlight=False)
        for line in table(expected, found):
            self.console.out(line.rstrip(), highlight=False)

    @property
    def _gpu(self) -> bool:
        return self.machine.device.type == "cuda"


def _events(seen: profile) -> Sequence[FunctionEvent]:
    found: Sequence[FunctionEvent] = seen.events()  # type: ignore[no-untyped-call]
    return found
