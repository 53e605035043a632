"""Trials as one Slurm array by submitit (extra `slurm`): all that are due at a time are one array.

All machines see the study's directory at the same path. submitit keeps its own files in `slurm/` there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from anyformer.describe import UserError
from anyformer.studies.engines.worker import run_there

PAUSE = 0.5
FOLDER = "slurm"


class SlurmArray:
    """Gathers trials, and submits all of them when the first one is asked about; `options`: of submitit, as `slurm_partition`
    or `timeout_min`, and `cluster = "local"` for processes of this machine."""

    def __init__(self, directory: Path, options: Mapping[str, Any]) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError("--engine slurm needs submitit: pip install 'anyformer[slurm]'") from None
        own = dict(options)
        self._executor = submitit.AutoExecutor(folder=directory / FOLDER, cluster=own.pop("cluster", None))
        self._options = {"name": directory.name, **own}
        self._waiting: list[SlurmJob] = []

    def __call__(self, directory: Path, threads: int, output: IO[bytes]) -> SlurmJob:
        job = SlurmJob(self, str(directory.resolve()), threads)
        self._waiting.append(job)
        return job

    def submit(self) -> None:
        """Everything that waits, as one array."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self._executor.update_parameters(cpus_per_task=max(each.threads for each in waiting), **self._options)
        jobs = self._executor.map_array(run_there, [each.place for each in waiting], [each.threads for each in waiting])
        for each, job in zip(waiting, jobs, strict=True):
            each.job = job


class SlurmJob:
    """One job of an array, asked as a process is."""

    def __init__(self, array: SlurmArray, place: str, threads: int) -> None:
        self._array, self.place, self.threads = array, place, threads
        self.job: Any = None

    def poll(self) -> int | None:
        """The exit code of the trial's process, None while it runs or waits; 1 where the job itself failed."""
        if self.job is None:
            self._array.submit()
        if not self.job.done():
            return None
        try:
            return int(self.job.result())
        except Exception:  # cancelled, out of time, or its machine is gone: tried again next time
            return 1

    def send_signal(self, sig: int, /) -> None:
        """Cancel the job; what the trial saved last is where it goes on."""
        if self.job is not None:
            self.job.cancel()

    def wait(self) -> int:
        """Its exit code, once it ended."""
        while (code := self.poll()) is None:
            time.sleep(PAUSE)
        return code
