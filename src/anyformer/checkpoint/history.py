"""The checkpoints of one run: one directory per step, the latest undamaged one, and which ones to keep."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from anyformer.checkpoint.manifest import CheckpointError, read_manifest, verify

_STEP = re.compile(r"step-(\d{8})\Z")


def directory_of(run: Path, step: int) -> Path:
    """The directory of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step:08d}"


def steps(run: Path) -> list[int]:
    """The steps that have a checkpoint, in order."""
    matches = (_STEP.match(path.name) for path in (run / "checkpoints").glob("step-*"))
    return sorted(int(match[1]) for match in matches if match)


def latest(run: Path, also: tuple[str, ...] = ()) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies (None without one), and the error of each newer one; `also`: see `verify`."""
    damaged: list[str] = []
    for step in reversed(steps(run)):
        directory = directory_of(run, step)
        try:
            verify(directory, also)
        except CheckpointError as error:
            damaged.append(str(error))
        else:
            return directory, damaged
    return None, damaged


def best(run: Path) -> Path | None:
    """The checkpoint with the lowest validation loss, None if none was evaluated."""
    losses: list[tuple[float, int]] = []
    for step in steps(run):
        try:
            loss = read_manifest(directory_of(run, step)).validation_loss
        except CheckpointError:
            continue
        if loss is not None:
            losses.append((loss, step))
    return directory_of(run, min(losses)[1]) if losses else None


def prune(run: Path, keep: int) -> None:
    """Delete all but the last `keep` checkpoints and the best."""
    kept = {directory_of(run, step) for step in steps(run)[-keep:]} | {best(run)}
    for step in steps(run):
        if directory_of(run, step) not in kept:
            shutil.rmtree(directory_of(run, step), ignore_errors=True)
