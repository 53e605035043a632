"""Models of stores and hubs on this machine: what loading one needs is fetched, verified, and kept within bounds."""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from anyformer import hub, stores
from anyformer.checkpoint.history import directory_of, step_of, steps
from anyformer.checkpoint.manifest import MANIFEST, WEIGHTS, CheckpointError, ManifestEntry, read_manifest
from anyformer.checkpoint.model import ADAPTER_WEIGHTS
from anyformer.checkpoint.pieces import file_of
from anyformer.checkpoint.remote import CHECKPOINTS, fetch, stored_manifest, stored_steps, url_of
from anyformer.costs import scaled
from anyformer.data.progress import meter
from anyformer.describe import Notice
from anyformer.files import PlaceError, default_cache, disk_errors, locked, writing

RUN = "run.toml"
ROOM = 100 * 10**9
"""Bytes of fetched models that stay for the next time; the one that was used longest ago goes first."""
_FOLDER = "stores"


def at_hand(place: str | Path) -> Path:
    """The path of a model; of one in a store or on a hub the path of its copy here, which is fetched if it is not there.

    Of a run's checkpoints the newest whole one is fetched, and of that what a model is loaded from: no state of optimisers, no
    second models; of a hub's model the files that `hub.model` chooses. Raises `StoreError`, `HubError`, `CheckpointError` for a
    URL beneath which there is neither, and `PlaceError`.
    """
    if hub.is_hub(place):
        return hub.fetched(place, partial(_of_hub, hub.parsed(place)), partial(meter, show=os.environ.get("RANK", "0") == "0"))
    if near := hub.suggested(str(place)):
        raise hub.HubError(f"{place}: a model of a hub is named as {hub.FORM}; did you mean {near}?")
    url = str(place).rstrip("/")
    if not stores.is_url(url):
        return Path(place)
    parent, _, name = url.rpartition("/")
    run, _, folder = parent.rpartition("/")
    of_run = step_of(name) is not None and folder == CHECKPOINTS
    home = _home(run if of_run else url)
    with disk_errors(home):
        home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.parent / ".lock"):
        if of_run:
            _settings(run, home)
            found = _fetched(url, home / CHECKPOINTS / name)
        elif stores.exists(stores.joined(url, MANIFEST)):
            found = _fetched(url, home)
        else:
            found = _newest(url, home)
    os.utime(home.parent)
    return found


def _of_hub(model: hub.HubName, names: Collection[str]) -> list[str]:
    """The files of a hub's repository that a model is loaded from: one of Hugging Face's layout, or a checkpoint of ours."""
    if MANIFEST in names:
        return [name for name in names if needed(name)]
    hub.check_weights(model, names)
    return hub.model(names)


def needed(name: str) -> bool:
    """Whether a model is loaded from a file of its checkpoint."""
    whole = file_of(name)
    return not whole.endswith(".safetensors") or whole in (WEIGHTS, ADAPTER_WEIGHTS)


def _home(url: str) -> Path:
    """Where the copy of a run or a checkpoint is, under its own name."""
    return default_cache() / _FOLDER / hashlib.sha256(url.encode()).hexdigest()[:16] / url.rpartition("/")[2]


def _newest(url: str, home: Path) -> Path:
    """The copy of a run with its newest whole checkpoint alone; a `Notice` warns of each damaged one that is skipped."""
    for step in reversed(stored_steps(url)):
        try:
            _fetched(url_of(url, step), directory_of(home, step))
        except CheckpointError as error:
            warnings.warn(f"skipping a damaged checkpoint: {error}", Notice, stacklevel=2)
            continue
        for other in steps(home):
            if other != step:
                shutil.rmtree(directory_of(home, other))
        _settings(url, home)
        return home
    raise CheckpointError(f"{url}: holds no whole checkpoint: give the URL of a run or of a checkpoint (with {MANIFEST})")


def _fetched(url: str, directory: Path) -> Path:
    """The copy of a checkpoint, fetched unless it is there and as it was fetched."""
    wanted = {name: entry for name, entry in stored_manifest(url).files.items() if needed(name)}
    if not _as_fetched(directory, wanted):
        _make_room(sum(entry.bytes for entry in wanted.values()), directory)
        fetch(url, directory, wanted=needed)
    return directory


def _as_fetched(directory: Path, wanted: Mapping[str, ManifestEntry]) -> bool:
    """Whether a copy has all that is wanted, of the same size, and nothing that changed after its manifest was written.

    Digests are left to whoever loads it.
    """
    try:
        written = (directory / MANIFEST).stat().st_mtime_ns
        facts = {name: (directory / name).stat() for name in wanted}
        same = read_manifest(directory).files == wanted
    except (OSError, CheckpointError):
        return False
    return same and all(each.st_size == wanted[name].bytes and each.st_mtime_ns <= written for name, each in facts.items())


def _settings(url: str, home: Path) -> None:
    """Copy the settings of a run."""
    with writing(_made(home) / RUN) as partial:
        stores.copied(stores.joined(url, RUN), partial)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _make_room(wanted: int, directory: Path) -> None:
    """Delete what was used longest ago until so many bytes more are within bounds. Raises `PlaceError` if there is no room."""
    root = default_cache() / _FOLDER
    sizes = {
        place: sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        for place in sorted(root.iterdir(), key=lambda place: place.stat().st_mtime)
        if place not in directory.parents
    }
    for place, size in sizes.items():
        if sum(sizes.values()) + wanted <= ROOM:
            break
        shutil.rmtree(place, ignore_errors=True)
        sizes = {**sizes, place: 0} if size else sizes
    free = shutil.disk_usage(root).free
    if free < wanted:
        raise PlaceError(
            f"{root}: {scaled(free)}B are free, and the model needs {scaled(wanted)}B: free some space, or name another place "
            "with ANYFORMER_CACHE"
        )
