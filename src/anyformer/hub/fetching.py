"""Files of a model from a hub into the cache that all of its tools share: those that are needed, at one commit."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from anyformer.describe import Notice
from anyformer.files import default_cache, sha256, writing
from anyformer.hub import library, wanted
from anyformer.hub.library import told
from anyformer.hub.names import GGUF, HubError, HubName, parsed
from anyformer.hub.wanted import INDEX, WHOLE, Wanted

Advance = Callable[[int], None]
Watch = Callable[[str, int], contextlib.AbstractContextManager[Advance]]
"""What shows progress: of a label and a number of bytes, a context that gives a function of the bytes just fetched."""
_AT_ONCE = 4
"""Files that are fetched at a time."""
_ANCHORS = ("config.json", "tokenizer.json", "architecture.json", "adapter_config.json", INDEX, WHOLE, "README.md")
"""Files by which a model is looked for in the cache while the hub is not asked."""


@dataclass(frozen=True)
class Listing:
    """What a model's repository holds at one commit: bytes of every file by name, SHA-256 of the large ones."""

    repo: str
    commit: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def unwatched(label: str, total: int) -> Any:
    """`Watch` that shows nothing."""
    yield lambda count: None


def fetched(place: str | Path, wants: Wanted, watch: Watch = unwatched) -> Path:
    """The directory with the files of a model that `wants` chooses, or the path of its GGUF file; fetched where absent.

    Of weights in parts those that the index names. The cache is that of every other tool of the hub (`HF_HUB_CACHE`,
    `HF_HOME`); a commit that is there whole needs no connection. Raises `HubError` before anything large is fetched.
    """
    name = parsed(place)
    listing = listing_of(name)
    name, fetch = replace(name, repo=listing.repo), partial(_fetch, replace(name, repo=listing.repo), listing, watch)
    if name.file is not None:
        return fetch(wanted.pieces(name.file, listing.sizes)) / name.file
    names = wants(listing.sizes)
    if not names:
        held = ", ".join(sorted(listing.sizes)[:6]) or "no file"
        raise HubError(f"{name}: holds no model that is read here: its files are {held}")
    directory = fetch(names)
    return fetch(_parts(name, directory, listing)) if INDEX in names else directory


def has_weights(directory: Path) -> bool:
    """Whether all safetensors of a model are in its directory of the cache."""
    index = directory / INDEX
    if (directory / WHOLE).is_file() or not index.is_file():
        return (directory / WHOLE).is_file()
    return all((directory / part).is_file() for part in _named_in(index))


def _named_in(index: Path) -> list[str]:
    """The files of weights that an index names."""
    try:
        return sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise HubError(f"{index}: has no table weight_map of tensors and files ({error!r})") from None


def _parts(name: HubName, directory: Path, listing: Listing) -> list[str]:
    """The files of weights that an index names, all of which the model has."""
    parts = _named_in(directory / INDEX)
    if missing := [part for part in parts if part not in listing.sizes]:
        raise HubError(f"{name}: {INDEX} names {missing[0]!r}, which the model has not at this commit; take another revision")
    return parts


def _check_named(name: HubName, listing: Listing) -> None:
    if name.file is None or name.file in listing.sizes:
        return
    files = sorted(each for each in listing.sizes if each.endswith(GGUF))
    said = f"its GGUF files are {', '.join(files[:8])}" if files else "it has no GGUF file"
    raise HubError(f"{name}: the model has no file {name.file}; {said}")


def listing_of(name: HubName) -> Listing:
    """What the model holds: of a commit as it is remembered, else as the hub says, else as the cache has it.

    Raises `HubError` where it is not there, or has not the file that is named.
    """
    found = _found(name)
    _check_named(name, found)
    return found


def _found(name: HubName) -> Listing:
    if name.commit is not None and (kept := _kept(name.commit)) is not None:
        return kept
    try:
        info = library.library().HfApi().model_info(name.repo, revision=name.revision, files_metadata=True)
    except Exception as error:
        if not library.unreachable(error):
            with told(name):
                raise
        return _cached(name, error)
    files = info.siblings or ()
    listing = Listing(
        info.id,
        info.sha,
        {each.rfilename: each.size or 0 for each in files},
        {each.rfilename: each.lfs.sha256 for each in files if each.lfs is not None},
    )
    with contextlib.suppress(OSError):  # it is asked again
        _record(listing.commit).parent.mkdir(parents=True, exist_ok=True)
        with writing(_record(listing.commit)) as partial_file:
            partial_file.write_text(json.dumps(asdict(listing)), encoding="utf-8")
    return listing


def _record(commit: str) -> Path:
    """Where a listing is remembered: what a commit holds never changes."""
    return default_cache() / "hub" / f"{commit}.json"


def _kept(commit: str) -> Listing | None:
    try:
        return Listing(**json.loads(_record(commit).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _cached(name: HubName, error: Exception) -> Listing:
    """The model as the cache has it, while the hub gives no answer."""
    anchors = _ANCHORS if name.file is None else (name.file,)
    places = ((anchor, here(name.repo, anchor, name.revision)) for anchor in anchors)
    anchor, found = next(((anchor, place) for anchor, place in places if place is not None), (None, None))
    if anchor is None or found is None:
        raise HubError(library.not_here(name, name.file, library.first_line(error))) from error
    folder = found.parents[anchor.count("/")]
    if not library.offline() and name.commit is None:
        said = f"{name}: {library.endpoint()} cannot be reached, so the copy in the cache is read, of commit {folder.name[:12]}"
        warnings.warn(said, Notice, stacklevel=2)
    files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return _kept(folder.name) or Listing(name.repo, folder.name, files)


def here(repo: str, file: str, revision: str | None) -> Path | None:
    """The path of a file in the cache; None where it is not there."""
    found = library.library().try_to_load_from_cache(repo, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def _fetch(name: HubName, listing: Listing, watch: Watch, names: Sequence[str]) -> Path:
    """Fetch files that are not in the cache, several at a time; the directory that has them."""
    absent = [each for each in names if here(name.repo, each, listing.commit) is None]
    if absent:
        total = sum(listing.sizes[each] for each in absent)
        _check_room(name, total)
        with watch(f"fetching {name.repo}", total) as advance, ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(partial(_download, name, listing, advance), absent))
    _remember_revision(name, listing, names[0])
    first = here(name.repo, names[0], listing.commit)
    assert first is not None, "it was fetched"
    return first.parents[names[0].count("/")]


def _download(name: HubName, listing: Listing, advance: Advance, file: str) -> None:
    with told(name, file):
        path = library.library().hf_hub_download(name.repo, file, revision=listing.commit, tqdm_class=library.counting(advance))
        wanted_digest = listing.digests.get(file)
        if wanted_digest is not None and sha256(Path(path)) != wanted_digest:
            blob = Path(path).resolve()
            Path(path).unlink()
            blob.unlink(missing_ok=True)
            raise HubError(f"{name}: {file}: was damaged on the way: its SHA-256 differs; it was deleted: fetch it again")


def _remember_revision(name: HubName, listing: Listing, file: str) -> None:
    """Let the cache know which commit a branch stands for, as other tools do, for when the hub is not asked."""
    if name.commit is not None or library.offline():
        return
    known = here(name.repo, file, name.revision)
    if known is None or listing.commit not in known.parts:
        with contextlib.suppress(Exception):  # a read-only cache, or a connection lost meanwhile: all files are here
            library.library().hf_hub_download(name.repo, file, revision=name.revision)


def _check_room(name: HubName, size: int) -> None:
    place = Path(library.cache())
    existing = next(each for each in (place, *place.parents) if each.exists())
    free = shutil.disk_usage(existing).free
    if free < size:
        raise HubError(
            f"{name}: {size / 1e9:,.2f} GB are to be fetched, and {free / 1e9:,.2f} GB are free at {place}: free some space, "
            "or name another place with HF_HUB_CACHE"
        )
