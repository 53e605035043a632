"""The checkpoints of one run: one directory per step, the latest undamaged one, and which ones to keep."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from anyformer.checkpoint.digests import BY_ONE, Checkers, verify
from anyformer.checkpoint.manifest import CheckpointError, read_manifest
from anyformer.files import unfinished

ASIDE = "damaged-"
"""What the name of a damaged checkpoint begins with once it is set aside."""
_STEP = re.compile(r"step-(\d{8})\Z")


def directory_of(run: Path, step: int) -> Path:
    """The directory of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step:08d}"


def steps(run: Path) -> list[int]:
    """The steps that have a checkpoint, in order."""
    names = (path.name for path in (run / "checkpoints").glob("step-*"))
    return sorted(step for name in names if (step := step_of(name)) is not None)


def step_of(name: str) -> int | None:
    """The step of the checkpoint whose directory has this name; None if it is that of none."""
    found = _STEP.match(name)
    return int(found[1]) if found else None


def latest(run: Path, also: tuple[str, ...] = (), among: Checkers = BY_ONE) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies (None without one), and the error of each newer one.

    `also`, `among`: see `verify`.
    """
    damaged: list[str] = []
    for step in reversed(among.same(lambda: steps(run))):
        directory = directory_of(run, step)
        try:
            verify(directory, also, among)
        except CheckpointError as error:
            damaged.append(str(error))
        else:
            return directory, damaged
    return None, damaged


def newest(path: Path) -> Path:
    """The latest undamaged checkpoint of a run; the directory itself where there is none, or where it is no run."""
    return (latest(path)[0] or path) if steps(path) else path


def set_aside(run: Path, after: int) -> list[Path]:
    """Rename the checkpoints after step `after`, which do not verify, so that they neither count nor stand in the way."""
    aside: list[Path] = []
    for step in steps(run):
        if step > after:
            path = directory_of(run, step)
            other = path.with_name(ASIDE + path.name)
            shutil.rmtree(other, ignore_errors=True)
            aside.append(path.rename(other))
    return aside


def losses_of(run: Path) -> dict[int, float | None]:
    """The validation loss of every step that has a checkpoint, in order; None where it was not evaluated or is damaged."""
    losses: dict[int, float | None] = {}
    for step in steps(run):
        try:
            losses[step] = read_manifest(directory_of(run, step)).validation_loss
        except CheckpointError:
            losses[step] = None
    return losses


def best(run: Path) -> Path | None:
    """The checkpoint with the lowest validation loss, None if none was evaluated."""
    found = _best(losses_of(run))
    return None if found is None else directory_of(run, found)


def kept(losses: Mapping[int, float | None], keep: int, every: int | None = None, also: int | None = None) -> set[int]:
    """Of steps in order, with their validation losses, those whose checkpoints stay: the last `keep`, the best, the multiples
    of `every` after step 0, and step `also`."""
    forever = {step for step in losses if every is not None and step > 0 and step % every == 0}
    return {*[*losses][-keep:], *forever} | {step for step in (_best(losses), also) if step is not None}


def _best(losses: Mapping[int, float | None]) -> int | None:
    evaluated = [(loss, step) for step, loss in losses.items() if loss is not None]
    return min(evaluated)[1] if evaluated else None


def drop(run: Path, after: int) -> None:
    """Delete the checkpoints after step `after`, to which training goes back."""
    for step in reversed(steps(run)):
        if step > after:
            _delete(directory_of(run, step))


def prune(run: Path, keep: int, every: int | None = None, also: int | None = None) -> None:
    """Delete all checkpoints but those that are `kept`."""
    losses = losses_of(run)
    for step in losses.keys() - kept(losses, keep, every, also):
        _delete(directory_of(run, step))


def sweep(run: Path) -> None:
    """Delete what a killed process left of checkpoints and files that it was writing or deleting; nobody else may write
    meanwhile."""
    for path in (run / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)
    for directory in (run, *(directory_of(run, step) for step in steps(run))):
        for path in unfinished(directory):
            path.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    """Delete a checkpoint, which loses its name first: no half of it is ever found."""
    nameless = path.with_name(f".{path.name}.deleted")
    shutil.rmtree(nameless, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.rename(nameless)
    shutil.rmtree(nameless, ignore_errors=True)
