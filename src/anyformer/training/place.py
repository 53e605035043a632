"""The directory of a run: made or refused before any work, locked by one process, on a disk large enough for checkpoints."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from anyformer.costs import scaled
from anyformer.costs.memory import ADAM, MASTER
from anyformer.describe import UserError
from anyformer.files import PlaceError, check_file, check_parents, disk_errors
from anyformer.operations import Shape
from anyformer.training.run import Run

LOCK = ".lock"


class HeldError(UserError):
    """Another process trains in this directory."""


@contextlib.contextmanager
def holding(directory: Path, remedy: str = "") -> Iterator[None]:
    """Lock a directory for this process, making it if needed; directories made here that stay empty are removed again.

    The lock ends with its process, however that ends. `remedy`: what a user may do besides waiting for another process.
    """
    check_parents(directory)
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        with disk_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
        check_file(directory / LOCK)
        with _locked(directory / LOCK, remedy):
            yield
    finally:
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()


@contextlib.contextmanager
def held(directory: Path, remedy: str, check: Callable[[Path], None]) -> Iterator[None]:
    """Hold a directory that passes a check, before and after it is held."""
    check(directory)
    with holding(directory, remedy):
        check(directory)
        yield


@contextlib.contextmanager
def _locked(path: Path, remedy: str) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with disk_errors(path):
        file = path.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have deleted the file between the two calls; a lock on a deleted file locks nobody out.
            if not path.exists() or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                raise BlockingIOError
        except BlockingIOError:
            file.seek(0)
            raise HeldError(
                f"{path.parent}: process {file.read().strip() or '(unknown)'} trains in this directory; wait until it has "
                f"ended, or stop it{remedy}"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def checkpoint_bytes(run: Run) -> int:
    """Bytes of one checkpoint of the run: weights, averaged ones too if there are any, and optimiser state."""
    declared = run.architecture.trained_cost(Shape(source=1))
    tuned = run.tuning.of(declared)
    every = [*declared.weights.values(), *tuned.added.values()]
    averages = run.average is not None or run.optimiser.averages
    precision = run.plan.precision
    beside = MASTER * precision.masters + (precision.weight_bytes if averages else 0)
    state = sum(run.optimiser.state_bytes(weight) + beside * weight.count for weight in tuned.learning.values())
    narrower = (ADAM.weights - precision.weight_bytes) * tuned.parameters
    return ADAM.weights * sum(weight.count for weight in every) - narrower + state


def check_space(directory: Path, run: Run) -> str:
    """What checkpoints will take, in words. Raises `PlaceError` if the disk cannot hold them: those kept, the best one, and the
    one being written."""
    one, asked = checkpoint_bytes(run), run.checkpoints
    needed, room = asked.most(run.steps) * one, asked.room(run.steps)
    present = sum(path.stat().st_size for path in directory.glob("checkpoints/step-*/*.safetensors"))
    free = shutil.disk_usage(directory).free
    if free + present < needed:
        fewer = ", or --set checkpoints.keep=1" if asked.keep > 1 else ""
        rarer = ", or raise checkpoints.keep_every" if asked.forever(run.steps) else ""
        raise PlaceError(
            f"{directory}: {scaled(free)}B are free, and the checkpoints need {scaled(needed)}B: {room}, "
            f"{scaled(one)}B each; free some space, or train on another disk{fewer}{rarer}"
        )
    store = f"; copies of those kept go to {asked.store}" if asked.store else ""
    return f"checkpoints: {scaled(one)}B each, {scaled(needed)}B of disk at most ({room}){store}"
