"""Files written whole or not at all, and what a disk refuses told in words before work is lost to it. No torch here."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from anyformer.describe import UserError

_REASONS = {
    errno.ENOSPC: "the disk is full; make room or choose another place",
    errno.EDQUOT: "the disk quota is used up; make room or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.EACCES: "permission denied; choose another place or change its permissions",
    errno.EPERM: "permission denied; choose another place or change its permissions",
    errno.ENOENT: "the directory does not exist; create it or choose another place",
    errno.ENOTDIR: "a part of the path is a file, not a directory; choose another place",
    errno.EISDIR: "it is a directory; give the name of a file",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


class PlaceError(UserError):
    """A file or directory cannot be written where it was asked for; the message names the place, the reason and the remedy."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Tell a disk's refusal inside as a `PlaceError` about `path`."""
    try:
        yield
    except OSError as error:
        raise PlaceError(
            f"{path}: cannot be written: {_REASONS.get(error.errno or 0, error.strerror or str(error))}"
        ) from error
    except SafetensorError as error:
        # safetensors writes from Rust and gives the reason in words alone.
        full = "No space left" in str(error)
        raise PlaceError(f"{path}: cannot be written: {_REASONS[errno.ENOSPC] if full else error}") from error


def default_cache() -> Path:
    """`$ANYFORMER_CACHE`, else `anyformer` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := os.environ.get("ANYFORMER_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "anyformer"


def check_file(path: Path) -> None:
    """Refuse, before any work, a place where a file of this name cannot be written."""
    with told(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        _check_writable(path.parent)


def check_directory(path: Path) -> None:
    """Refuse, before any work, a place where a directory of this name cannot be made: something stands there, or may not."""
    with told(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise PlaceError(f"{path}: exists{'' if path.is_dir() else ' and is a file'}; give the name of a new directory")
        check_parents(path)
        _check_writable(next(parent for parent in (path, *path.absolute().parents) if parent.exists()))


def check_parents(path: Path) -> None:
    """Refuse a new directory more than one level above which nothing is there: a path so far off is misspelt."""
    near = path.absolute().parents[:2]
    if near and not any(parent.exists() for parent in near):
        raise PlaceError(f"{path}: cannot be written: {near[-1]} does not exist; create it or choose another place")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write a file under; it takes the place of `path` on success, and is gone otherwise.

    The name ends as `path` does, since writers of pictures choose their format by it.
    """
    check_file(path)
    partial = path.with_name(f".{path.stem}.partial-{os.getpid()}{path.suffix}")
    try:
        with told(path):
            yield partial
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def writing_directory(path: Path) -> Iterator[Path]:
    """Give a directory beside `path` to fill; it becomes `path` on success, and is gone otherwise."""
    check_directory(path)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with told(path):
            partial.mkdir(parents=True)
            yield partial
            if path.exists():
                path.rmdir()
            partial.replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_writable(directory: Path) -> None:
    """Raise the system's own refusal of a new file in `directory`."""
    if not directory.is_dir():
        raise OSError(errno.ENOTDIR if directory.exists() else errno.ENOENT, "")
    probe = directory / f".anyformer-{os.getpid()}"
    try:
        probe.touch()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
