"""Where trials run: processes of this machine, Ray tasks, or one Slurm array; the directories, keys and numbers are alike."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from anyformer.describe import UserError, did_you_mean
from anyformer.studies.engines.ray_tasks import RayTasks
from anyformer.studies.engines.slurm import SlurmArray
from anyformer.studies.runner import Launched, process_of

__all__ = ["ENGINES", "Launch", "engine_of"]


Launch = Callable[[Path, int, IO[bytes]], Launched]
ENGINES: Mapping[str, Callable[[Path, Mapping[str, Any]], Launch]] = {
    "ray": lambda directory, options: RayTasks(options),
    "slurm": SlurmArray,
}
"""Engines beside the processes of this machine: from the study's directory and options of the engine's own."""


def engine_of(name: str | None, directory: Path, options: Mapping[str, Any]) -> Launch:
    """How an engine starts a trial; of None, as a process of this machine."""
    if name is None:
        if options:
            raise UserError(f"options of an engine, {', '.join(options)}, and no engine: give --engine ray or --engine slurm")
        return process_of
    if name not in ENGINES:
        raise UserError(f"--engine: there is no engine {name!r}{did_you_mean(name, ENGINES)}")
    return ENGINES[name](directory.resolve(), options)
