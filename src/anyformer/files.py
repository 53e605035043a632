"""Files and directories written whole or not at all; errors of the disk for people, if possible before any work. No torch."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from safetensors import SafetensorError

from anyformer.describe import UserError, text_in

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space or choose another place",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another place",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.EOPNOTSUPP: "the file system takes no new files; choose another place",
    errno.EACCES: "permission denied; choose another place or change its permissions",
    errno.EPERM: "permission denied; choose another place or change its permissions",
    errno.ENOENT: "the directory does not exist; create it or choose another place",
    errno.ENOTDIR: "a part of the path is a file, not a directory; choose another place",
    errno.EISDIR: "it is a directory; give the name of a file",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EFBIG: "the file is larger than the system allows; choose another place, or see ulimit -f",
    errno.EIO: "the disk or its connection failed (input/output error); check it, or choose another place",
}
_RUST = re.compile(r"\(os error (\d+)\)")
"""Where an error of a library in Rust, as safetensors, tells the system's number."""


class PlaceError(UserError):
    """A file or directory cannot be written; the message names the place, the reason and the remedy."""


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk inside into a `PlaceError` about `path`."""
    try:
        yield
    except OSError as error:
        raise PlaceError(
            f"{path}: cannot be written: {_REASONS.get(error.errno or 0, error.strerror or str(error))}"
        ) from error
    except SafetensorError as error:
        found = _RUST.search(str(error))
        number = int(found[1]) if found else 0
        raise PlaceError(f"{path}: cannot be written: {_REASONS.get(number, str(error))}") from error


def default_cache() -> Path:
    """`$ANYFORMER_CACHE`, else `anyformer` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if place := os.environ.get("ANYFORMER_CACHE"):
        return Path(place).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "anyformer"


def check_file(path: Path) -> None:
    """Raise `PlaceError`, before any work, if this file cannot be written."""
    with disk_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        _check_writable(path.parent)


def check_directory(path: Path) -> None:
    """Raise `PlaceError`, before any work, if this directory cannot be made, or is there and not empty."""
    with disk_errors(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise PlaceError(f"{path}: exists{'' if path.is_dir() else ' and is a file'}; give the name of a new directory")
        check_parents(path)
        _check_writable(next(parent for parent in (path, *path.absolute().parents) if parent.exists()))


def check_parents(path: Path) -> None:
    """Raise `PlaceError` if neither parent nor grandparent of a new directory exists: such a path is misspelt."""
    near = path.absolute().parents[:2]
    if near and not any(parent.exists() for parent in near):
        raise PlaceError(f"{path}: cannot be written: {near[-1]} does not exist; create it or choose another place")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`: on success it replaces `path`, otherwise it is deleted.

    Its suffix is that of `path`, since writers of pictures choose their format by it. A process that was killed may leave it,
    among the `unfinished` files.
    """
    check_file(path)
    # Threads may write the same file, and so may machines that share a disk and have equal numbers of processes.
    partial = path.with_name(f".{path.stem}.partial-{os.getpid()}-{secrets.token_hex(8)}{path.suffix}")
    try:
        with disk_errors(path):
            yield partial
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def unfinished(directory: Path) -> list[Path]:
    """The temporary files in a directory that `writing` has not yet given their names, or never will."""
    return [path for path in directory.glob(".*.partial-*") if path.is_file()]


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_text(path: Path, damaged: type[UserError]) -> str:
    """The text of a file in UTF-8. Raises `damaged`, which names the file, if it cannot be read or is no such text."""
    try:
        with path.open("rb") as file:
            return text_in(file)
    except (OSError, ValueError) as error:
        raise damaged(f"{path}: cannot be read ({error})") from None


@contextlib.contextmanager
def writing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill, which becomes the new directory `path` on success; otherwise it is deleted."""
    check_directory(path)
    with disk_errors(path), replacing_directory(path) as partial:
        yield partial
        if path.exists():
            path.rmdir()  # which fails if somebody put a file there meanwhile


@contextlib.contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory beside `path`: on success it replaces `path`, otherwise it is deleted.

    A process that was killed may leave its temporary directory; the next one that writes `path` deletes it.
    """
    begin = f".{path.name}.partial-"
    partial = path.with_name(f"{begin}{os.getpid()}")
    for left in path.parent.glob(f"{glob.escape(begin)}*"):
        shutil.rmtree(left, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        if path.exists():
            shutil.rmtree(path)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time make what others wait for, and then open. The lock on `path` ends with its process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_inside(name: str) -> bool:
    """Whether a name is that of a file in a directory or in a folder of it."""
    path = PurePosixPath(name)
    plain = name == path.as_posix() and "\0" not in name
    return plain and not path.is_absolute() and ".." not in path.parts and bool(path.name)


def _check_writable(directory: Path) -> None:
    """Raise the `OSError` that a new file in `directory` meets, if any."""
    if not directory.is_dir():
        raise OSError(errno.ENOTDIR if directory.exists() else errno.ENOENT, "")
    # Without a name where the system has such files, so that a process that is killed here leaves nothing behind.
    try:
        with tempfile.TemporaryFile(dir=directory, prefix=".anyformer-"):
            pass
    except FileNotFoundError:
        raise OSError(errno.EOPNOTSUPP, "") from None  # the directory is there, of a file system without new files, as /proc
