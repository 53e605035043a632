"""The checkpoints of a run on its disk and in its store: written, copied, pruned and forgotten by the run's own rules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anyformer import checkpoint, stores
from anyformer.checkpoint import Contents, remote
from anyformer.stores import StoreError
from anyformer.text import beside
from anyformer.training import budget, journal, partners
from anyformer.training.loggers import follower
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.run import Checkpoints
from anyformer.training.saving import Written
from anyformer.training.teacher import RECORD

_FILES = (
    journal.ENVIRONMENT,
    journal.DATA,
    RECORD,
    journal.METRICS,
    journal.SUMMARY,
    journal.PICTURE,
    journal.RUN,
)
_FOLDERS = (partners.FOLDER, beside.FOLDER, follower.FOLDER)
"""The files and folders of a run's directory that have a copy beside its checkpoints: those it writes and reads itself."""
_LITTLE = 2**20
"""Bytes of a file that is copied with every checkpoint; a larger one is copied where it has another size."""


def stored_url(directory: Path, asked: Checkpoints) -> str | None:
    """Where the copy of a run's directory is; None where there is none."""
    return None if asked.store is None else stores.joined(asked.store, directory.resolve().name)


@dataclass(frozen=True)
class Retention:
    """The checkpoints of a run in this `directory`, as its rules ask for; every process calls the same methods."""

    directory: Path
    asked: Checkpoints
    ranks: Ranks

    @property
    def url(self) -> str | None:
        """Of the run in its store."""
        return stored_url(self.directory, self.asked)

    def write(self, given: Contents, step: int, also: int | None) -> Written:
        """Write the checkpoint of a step, delete old ones, and copy it to the store. `also`: a step whose checkpoint stays.

        A store that fails loses nothing: the checkpoint is whole on the disk, and the next one is copied again.
        """
        began, place = budget.clock(), checkpoint.directory_of(self.directory, step)
        size = self.ranks.write(given, place)
        if self.ranks.first:
            size = checkpoint.read_manifest(place).bytes
            checkpoint.prune(self.directory, self.asked.keep, self.asked.keep_every, also)
        seconds, problem = budget.clock() - began, None
        if self.url is None:
            return Written(step, size, seconds)
        try:
            self._copy(self.url, step, also)
        except StoreError as error:
            problem = f"{error}. The checkpoint of step {step} is whole in {place}; the next one is copied again"
        return Written(step, size, seconds, budget.clock() - began - seconds, problem)

    def note(self, step: int, loss: float, also: int | None) -> str | None:
        """Note a validation loss in the checkpoint of a step, and delete old ones; gives what the store had against it."""
        if not self.ranks.first:
            return None
        place = checkpoint.directory_of(self.directory, step)
        checkpoint.add_facts(place, validation_loss=loss)
        checkpoint.prune(self.directory, self.asked.keep, self.asked.keep_every, also)
        if self.url is None:
            return None
        with _problem() as problem:
            url = remote.url_of(self.url, step)
            if stores.exists(stores.joined(url, checkpoint.MANIFEST)):  # else the copy failed
                remote.send(place, url, [checkpoint.MANIFEST])
            self._prune_copies(self.url, step, also)
        return problem[0] if problem else None

    def drop(self, after: int) -> str | None:
        """Delete the checkpoints after a step, to which training goes back; gives what the store had against it."""
        if self.ranks.first:
            checkpoint.drop(self.directory, after)
        if not self.ranks.first or self.url is None:
            return None
        with _problem() as problem:
            remote.drop_stored(self.url, [step for step in remote.stored_steps(self.url) if step > after])
        return problem[0] if problem else None

    def finish(self) -> str | None:
        """Copy what the end of a run left beside its checkpoints; gives what the store had against it."""
        if not self.ranks.first or self.url is None:
            return None
        with _problem() as problem:
            send_files(self.directory, self.url)
        return problem[0] if problem else None

    def _copy(self, url: str, step: int, also: int | None) -> None:
        """Copy the checkpoint of a step, each process what it wrote itself; the manifest comes last, by the first one."""
        place, there, ranks = checkpoint.directory_of(self.directory, step), remote.url_of(url, step), self.ranks

        def begin() -> None:
            if ranks.first:
                remote.unseal(there)
                send_files(self.directory, url)

        def share() -> None:
            names = checkpoint.read_manifest(place).files
            remote.send(place, there, [name for name in names if checkpoint.writer_of(name) % ranks.size == ranks.rank])

        def end() -> None:
            if ranks.first:
                remote.send(place, there, [checkpoint.MANIFEST])
                self._prune_copies(url, step, also)

        for act in (begin, share, end):
            ranks.beside(self.directory, act)

    def _prune_copies(self, url: str, step: int, also: int | None) -> None:
        remote.prune_stored(url, self.directory, step, self.asked.keep, self.asked.keep_every, also)


@remote.files_read()
def send_files(directory: Path, url: str) -> None:
    """Copy what a run needs beside its checkpoints: its settings, metrics, and what it began with."""
    inside = [path for folder in _FOLDERS for path in sorted((directory / folder).rglob("*"))]
    for path in [*inside, *(directory / name for name in _FILES)]:
        name = path.relative_to(directory).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in name.split("/")):  # some are being written
            continue
        there = stores.joined(url, name)
        if path.stat().st_size < _LITTLE or not stores.exists(there) or stores.size_of(there) != path.stat().st_size:
            remote.send(directory, url, [name])


@contextlib.contextmanager
def _problem() -> Iterator[list[str]]:
    """Within, what a store raises becomes a line in the list."""
    found: list[str] = []
    try:
        yield found
    except StoreError as error:
        found.append(str(error))
