"""Trials as Ray tasks (extra `ray`): one task for each, with as many CPUs as it has threads; Ray decides when and where.

All machines see the study's directory at the same path. What is not given as an option is Ray's own default: of a cluster that
`RAY_ADDRESS` names, or else a local one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from anyformer.describe import UserError
from anyformer.studies.engines.worker import run_there

PAUSE = 0.2


class RayTasks:
    """Starts trials in a cluster; `options`: arguments of `ray.init`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import ray
        except ImportError:
            raise UserError("--engine ray needs Ray: pip install 'anyformer[ray]'") from None
        self._ray = ray
        if not ray.is_initialized():
            ray.init(**{"log_to_driver": False, "include_dashboard": False, **options})
        self._task = ray.remote(run_there)

    def __call__(self, directory: Path, threads: int, output: IO[bytes]) -> RayTask:
        task = self._task.options(num_cpus=threads, max_retries=0)
        return RayTask(self._ray, task.remote(str(directory.resolve()), threads))


class RayTask:
    """One task, asked as a process is."""

    def __init__(self, ray: Any, task: Any) -> None:
        self._ray, self._task = ray, task
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code of the trial's process, None while it runs or waits; 1 where the task itself failed."""
        if self._code is None:
            done, _ = self._ray.wait([self._task], timeout=0)
            if done:
                try:
                    self._code = int(self._ray.get(self._task))
                except Exception:  # cancelled, or its machine is gone: tried again next time
                    self._code = 1
        return self._code

    def send_signal(self, sig: int, /) -> None:
        """Stop the task; the trial saves what it has."""
        self._ray.cancel(self._task)

    def wait(self) -> int:
        """Its exit code, once it ended."""
        while (code := self.poll()) is None:
            time.sleep(PAUSE)
        return code
