"""A run's checkpoints in a store: copied file by file, the manifest last, so that one is there whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from anyformer import stores
from anyformer.checkpoint.digests import BY_ONE, Checkers, shares_by_size
from anyformer.checkpoint.history import directory_of, kept, losses_of, step_of
from anyformer.checkpoint.manifest import MANIFEST, CheckpointError, Manifest, ManifestEntry, manifest_in, seal, writing
from anyformer.describe import UserError
from anyformer.stores import StoreError

CHECKPOINTS = "checkpoints"
_AT_ONCE = 2**24
"""Bytes that are copied at a time."""
_THREADS = 4
"""Files that a process fetches at a time, most of which wait for the store."""


def url_of(run: str, step: int) -> str:
    """The URL of a step's checkpoint, beneath that of its run."""
    return stores.joined(run, CHECKPOINTS, f"step-{step:08d}")


def stored_steps(run: str) -> list[int]:
    """The steps that have a whole checkpoint in a store, in order."""
    return sorted(step for step, names in _found(run).items() if MANIFEST in names)


def stored_manifest(url: str) -> Manifest:
    """The manifest of a checkpoint in a store. Raises `CheckpointError` if it is damaged, `StoreError` if it cannot be read."""
    place = stores.joined(url, MANIFEST)
    with stores.opened(place) as file:
        content = file.read()
    try:
        return manifest_in(content.decode(), place)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{place}: damaged ({error})") from None


def unseal(url: str) -> None:
    """Delete the manifest of a checkpoint, if there is one: what is written beneath its URL counts once it has one again."""
    stores.removed(stores.joined(url, MANIFEST))


@contextmanager
def files_read() -> Iterator[None]:
    """Within, an error of a file of this machine that is copied is raised as a `StoreError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{error.filename or 'a file of the run'}: cannot be read ({error.strerror or error})") from error


@files_read()
def send(directory: Path, url: str, names: Collection[str]) -> None:
    """Copy files of a directory into a store."""
    for name in names:
        with (directory / name).open("rb") as file, stores.opened(stores.joined(url, name), "wb") as copy:
            shutil.copyfileobj(file, copy, _AT_ONCE)


def drop_stored(run: str, steps: Collection[int]) -> None:
    """Delete checkpoints from a store, their manifests first: no half of one is ever found."""
    for step in steps:
        unseal(url_of(run, step))
        stores.removed(url_of(run, step))


def prune_stored(run: str, local: Path, newest: int, keep: int, every: int | None = None, also: int | None = None) -> None:
    """Delete the checkpoints of a run's store that are not `kept`, halves of others, and all after step `newest`, the newest of
    the run in the directory `local`: it went on from one before them."""
    here, found = losses_of(local), _found(run)
    whole = sorted(step for step, names in found.items() if MANIFEST in names and step <= newest)
    losses = {step: here[step] if step in here else _loss(url_of(run, step)) for step in whole}
    drop_stored(run, found.keys() - kept(losses, keep, every, also))


def fetch(url: str, directory: Path, among: Checkers = BY_ONE, wanted: Callable[[str], bool] = lambda name: True) -> Manifest:
    """Fetch a checkpoint, or the `wanted` files of it, into a new directory: each process its part, every digest checked.

    Raises, in all of them, `CheckpointError` for an object that is damaged or missing, which it names, and `StoreError`.
    """
    with ExitStack() as stack:
        manifest = among.same(partial(stored_manifest, url))
        files = {name: entry for name, entry in manifest.files.items() if wanted(name)}
        folder = among.same(lambda: stack.enter_context(writing(directory)))
        own = shares_by_size(files, among.size)[among.rank]
        problems = [each for every in among.every(_fetched(url, folder, own)) for each in every]
        for problem in sorted(problems, key=lambda problem: isinstance(problem, CheckpointError)):
            raise problem  # that of the store first: what could not be read may be whole
        among.same(lambda: _sealed(stack, folder, manifest, files))
    return Manifest(manifest.facts, files)


def fetch_latest(
    url: str, run: Path, among: Checkers = BY_ONE, wanted: Callable[[str], bool] = lambda name: True
) -> tuple[Path | None, list[str]]:
    """Fetch the newest whole checkpoint of a run in a store into the run's directory; and the error of each newer one."""
    damaged: list[str] = []
    for step in reversed(among.same(partial(stored_steps, url))):
        try:
            fetch(url_of(url, step), directory_of(run, step), among, wanted)
        except CheckpointError as error:
            damaged.append(str(error))
        else:
            return directory_of(run, step), damaged
    return None, damaged


def _sealed(stack: ExitStack, directory: Path, manifest: Manifest, files: Mapping[str, ManifestEntry]) -> None:
    """Seal what was fetched, and give it its name."""
    seal(directory, manifest.facts, files)
    stack.close()


def _fetched(url: str, directory: Path, files: Mapping[str, ManifestEntry]) -> list[UserError]:
    """Fetch files of a checkpoint; gives the error of each that could not be."""
    with ThreadPoolExecutor(_THREADS) as threads:
        said = threads.map(lambda name: _fetch(stores.joined(url, name), directory / name, files[name]), files)
        return [problem for problem in said if problem is not None]


def _fetch(url: str, path: Path, entry: ManifestEntry) -> UserError | None:
    digest, size = hashlib.sha256(), 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with stores.opened(url) as file, path.open("wb") as copy:
            while block := file.read(_AT_ONCE):
                digest.update(block)
                size += copy.write(block)
    except StoreError as error:
        return CheckpointError(f"{url}: missing") if isinstance(error.__cause__, FileNotFoundError) else error
    except OSError as error:
        return UserError(f"{path}: cannot be written ({error.strerror}): free some space, or choose another place")
    if (size, digest.hexdigest()) == (entry.bytes, entry.sha256):
        return None
    return CheckpointError(f"{url}: changed since it was written, {size} bytes whose SHA-256 differs from the manifest")


def _found(run: str) -> dict[int, set[str]]:
    """The files of each step of a run in a store, whole or not."""
    found: dict[int, set[str]] = {}
    place = stores.joined(run, CHECKPOINTS)
    for url in stores.listed(place):
        folder, _, name = url.removeprefix(f"{place}/").partition("/")
        step = step_of(folder)
        if step is not None:
            found.setdefault(step, set()).add(name)
    return found


def _loss(url: str) -> float | None:
    try:
        return stored_manifest(url).validation_loss
    except CheckpointError:
        return None
