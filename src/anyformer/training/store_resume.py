"""The store of a run, checked before any work, and a run that goes on from its copy there, which all processes fetch."""

from __future__ import annotations

from pathlib import Path

from anyformer import checkpoint, stores
from anyformer.checkpoint import remote
from anyformer.checkpoint.history import step_of
from anyformer.describe import UserError, from_toml
from anyformer.files import writing
from anyformer.stores import StoreError
from anyformer.training import journal
from anyformer.training.changes import check_changes, computed_otherwise
from anyformer.training.journal import RunDirectoryError
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.retention import stored_url
from anyformer.training.run import Run
from anyformer.training.trainer import OPTIMISER

_TRIAL = ".anyformer"
"""An object that is written to see whether a store can be written."""


def home_of(url: str) -> Path:
    """The directory in which the run of a URL goes on: under its name in `runs`."""
    return Path("runs") / url.rstrip("/").rpartition("/")[2]


def store_of(url: str) -> str:
    """`checkpoints.store` of the run of a URL."""
    return url.rstrip("/").rpartition("/")[0]


def stored_run(url: str) -> Run:
    """The settings of a run in a store. Raises `RunDirectoryError` where none is."""
    place = stores.joined(url, journal.RUN)
    if not stores.exists(place):
        raise RunDirectoryError(f"{url}: not a run, it has no {journal.RUN}")
    with stores.opened(place) as file:
        return from_toml(Run, file.read().decode(errors="replace"), place)


def check_store(directory: Path, run: Run, *, fresh: bool) -> None:
    """Raise `StoreError`, before any work, if the run's store cannot be written or holds another run; any, if it is `fresh`."""
    url = stored_url(directory, run.checkpoints)
    if url is None:
        return
    if stores.exists(stores.joined(url, journal.RUN)):
        if fresh:
            raise StoreError(
                f"{url}: already holds a run; continue it with --resume {url}, or choose another --out or checkpoints.store"
            )
        if lines := computed_otherwise(stored_run(url), run):
            raise StoreError(
                f"{url}: holds another run, which the copies of {directory} would replace; set checkpoints.store to another "
                f"place (--set checkpoints.store=URL), or move that run away. They differ:\n{lines}"
            )
    with stores.opened(stores.joined(url, _TRIAL), "wb") as file:
        file.write(b"a run will be kept here")
    stores.removed(stores.joined(url, _TRIAL))


def bring(url: str, directory: Path, stored: Run, ranks: Ranks) -> list[str]:
    """Fetch the `stored` run of a URL into a directory, unless a whole checkpoint there is as new.

    Gives the error of each damaged one that was passed over. Raises `ChangedError` for a directory that holds another run.
    """
    ranks.first_alone(lambda: _check_same(directory, stored))
    here, _ = checkpoint.latest(directory, (OPTIMISER,), ranks)
    newest = ranks.same(lambda: remote.stored_steps(url))[-1:]
    if here is not None and (not newest or (step_of(here.name) or 0) >= newest[0]):
        return []
    ranks.first_alone(lambda: _bring_files(url, directory))
    return remote.fetch_latest(url, directory, ranks)[1]


def _check_same(directory: Path, stored: Run) -> None:
    if (directory / journal.RUN).is_file():
        check_changes(journal.read_run(directory), stored, str(directory))


def _bring_files(url: str, directory: Path) -> None:
    """Fetch all that is beside the checkpoints, the settings last: a directory with them is a run."""
    found = [each.removeprefix(f"{url.rstrip('/')}/") for each in stores.listed(url)]
    names = [name for name in found if not name.startswith(f"{remote.CHECKPOINTS}/")]
    for name in sorted(names, key=lambda name: name == journal.RUN):
        path = directory / name
        if ".." in Path(name).parts:
            raise UserError(f"{url}: {name!r} is no name of a file in a run's directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as partial:
            stores.copied(stores.joined(url, name), partial)
