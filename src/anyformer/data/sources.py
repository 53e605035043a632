"""From paths and URLs to files, in the order in which they are read. Nothing is opened here."""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from os.path import exists, isdir, isfile  # which no name is too long for
from pathlib import Path

from anyformer import stores
from anyformer.data.compressed import suffix_of
from anyformer.data.description import STDLIB, TEXT_GLOBS, Files
from anyformer.data.file_places import FilePlace, StoredFile
from anyformer.text.errors import DataError

ROWS = (".jsonl", ".parquet")
"""Files of text that have one document per row."""
# Installed packages are not the standard library, its tests include files that are broken on purpose, and its encodings are
# generated tables.
_NOT_STDLIB = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings"})


@dataclass(frozen=True)
class SourceFile:
    """One file to read. `explicit`: the user named it, so errors refuse it; files of a directory are skipped instead.
    `origin`: the word of the built-in records that are made from it, if any; `root`: the directory of the user's in which it
    was found, if any."""

    path: FilePlace
    explicit: bool
    size: int
    modified: int | str
    origin: str = ""
    root: Path | None = None

    @property
    def on_disk(self) -> Path:
        """Its path, of a file that is known to be on this machine."""
        assert isinstance(self.path, Path), self.path
        return self.path

    @property
    def rows(self) -> bool:
        """Whether each of its rows is a document: JSON lines, Parquet."""
        return suffix_of(self.path) in ROWS

    def identity(self) -> list[str | int]:
        """Absolute path or URL, bytes, and time of change (ns) or mark of the store: if one differs, the file changed."""
        return [str(self.path), self.size, self.modified]


def find_sources(paths: Iterable[str], globs: Sequence[str] = ()) -> list[SourceFile]:
    """The files of `paths` in order, each once (a directory's sorted by relative path); `DataError` if a path has none."""
    sources: dict[str, SourceFile] = {}
    for path in paths:
        for source in _expand(path, globs or TEXT_GLOBS):
            first = sources.setdefault(real(source.path), source)
            if source.explicit:
                sources[real(source.path)] = replace(first, explicit=True)
    return list(sources.values())


def without(sources: Iterable[SourceFile], others: Iterable[SourceFile]) -> list[SourceFile]:
    """`sources` that are not among `others`, compared by real path."""
    taken = {real(other.path) for other in others}
    return [source for source in sources if real(source.path) not in taken]


def apart(
    data: Files, find: Callable[[Iterable[str], Sequence[str]], list[SourceFile]]
) -> tuple[list[SourceFile], list[SourceFile]]:
    """The files to train on and the files of `validation_paths`; `find`: the files of some paths."""
    held_out = find(data.validation_paths, data.glob)
    sources = without(find(data.paths, data.glob), held_out)
    if not sources:
        raise DataError(f"paths = {list(data.paths)}: every file is also in validation_paths; nothing is left to train on")
    return sources, held_out


def real(place: FilePlace) -> str:
    """A path with every link followed; of an object its URL."""
    return str(place) if isinstance(place, StoredFile) else os.path.realpath(place)


def current(source: SourceFile) -> SourceFile:
    """The source with its current size and time of change; `DataError` if the file is gone."""
    if isinstance(source.path, StoredFile):
        return _stored(stores.object_of(source.path.url), source.explicit)
    return _source(source.path, source.explicit)


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path lies in a directory, every link followed.

    A snapshot in the cache of the Hugging Face Hub consists of links to the `blobs` of its repository, which it is part of.
    """
    if "\0" in str(path):
        return False
    snapshot = next((each for each in (root, *root.parents) if each.parent.name == "snapshots"), None)
    roots = (root,) if snapshot is None else (root, snapshot.parent.parent / "blobs")
    return any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(each)) for each in roots)


def _expand(path: str, globs: Sequence[str]) -> list[SourceFile]:
    if path == STDLIB:
        root = Path(sysconfig.get_path("stdlib"))
        return _walk(root, ("*.py",), _NOT_STDLIB)
    if stores.is_url(path):
        return _beneath(path, globs)
    place = Path(path).expanduser().absolute()
    if isdir(place):
        return _walk(place, globs, frozenset())
    if not exists(place):
        hint = "; wildcards belong in `glob`, beside the directory in `paths`" if any(mark in path for mark in "*?[") else ""
        raise DataError(f"{path}: no such file or directory (looked for {place}){hint}")
    if not isfile(place):
        raise DataError(f"{path}: is neither a regular file nor a directory; copy its content into a file first")
    return [_source(place, explicit=True)]


def _beneath(url: str, globs: Sequence[str]) -> list[SourceFile]:
    """The object at a URL, or those beneath it whose names match, hidden ones left out."""
    stores.check_no_secrets(url)
    names = stores.beneath(url)
    if list(names) == [""]:
        return [_stored(names[""], explicit=True)]
    if not names:
        raise DataError(f"{url}: there is no object at this URL, nor any beneath it; check its name, bucket and folder")
    shown = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    taken = [name for name in shown if any(_matches(name, glob) for glob in globs)]
    if not taken:
        raise DataError(
            f"{url}: no object beneath it matches {', '.join(globs)}, only {_endings(shown)}; name others with `glob`"
        )
    return [_stored(names[name], explicit=False) for name in sorted(taken, key=lambda name: name.split("/"))]


def _stored(found: stores.StoredObject, explicit: bool) -> SourceFile:
    return SourceFile(StoredFile(found.url), explicit, found.size, found.mark)


def _walk(root: Path, globs: Sequence[str], skipped: frozenset[str]) -> list[SourceFile]:
    names = [name for name in _files(root, skipped) if any(_matches(name, glob) for glob in globs)]
    if not names:
        raise DataError(_no_file(root, skipped, globs))
    return [_source(root / name, explicit=False, root=root) for name in sorted(names, key=lambda name: name.split("/"))]


def _no_file(root: Path, skipped: frozenset[str], globs: Sequence[str]) -> str:
    """What is wrong with a directory in which no file matches: that it is empty, or what it has instead."""
    names = list(_files(root, skipped))
    if not names:
        return f"{root}: this directory has no files; put some there, or name another"
    return f"{root}: no file in this directory matches {', '.join(globs)}, only {_endings(names)}; name others with `glob`"


def _endings(names: Iterable[str]) -> str:
    """The commonest endings of some names, and how often each comes."""
    endings = Counter(suffix_of(Path(name)) or name for name in names)
    return ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(3))


def _files(root: Path, skipped: frozenset[str]) -> Iterator[str]:
    """Relative names with `/` of all regular files under `root`, hidden ones and byte code left out."""

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename}: this directory cannot be read ({error.strerror}); allow reading or leave it out")

    for folder, folders, files in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if name not in skipped and name != "__pycache__" and not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield path.relative_to(root).as_posix()


def _matches(name: str, glob: str) -> bool:
    return fnmatch(name if "/" in glob else name.rpartition("/")[2], glob)


def _source(path: Path, explicit: bool, root: Path | None = None) -> SourceFile:
    try:
        str(path).encode()
        status = path.stat()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise DataError(f"{shown}: the name of this file is not UTF-8, so nothing can be written about it; rename it") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return SourceFile(path, explicit, status.st_size, status.st_mtime_ns, root=root)
