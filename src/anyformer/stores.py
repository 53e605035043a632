"""Objects in stores (`s3://`, `gs://`, `memory://`, ...) by fsspec: read, listed, written whole or not at all. No torch."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, cast

from anyformer.describe import UserError
from anyformer.files import is_inside

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
BLOCK = 2**20
"""Bytes that are read or written at a time, at least."""
_ABSENT = (FileNotFoundError, NotADirectoryError)
_LIST = "https://filesystem-spec.readthedocs.io/en/latest/api.html#other-known-implementations"
_SETTINGS = "https://filesystem-spec.readthedocs.io/en/latest/features.html#configuration"
_SECRET = re.compile(
    r"://[^/?#@:\[]*:(?!\d*(?:[/?#]|$))"
    r"|[?&](?:[^=&]*(?:signature|token(?!i)|secret|passw|credential|(?:api|access|account).?key)[^=&]*|sig|key|auth|pwd)=",
    re.IGNORECASE,
)
"""The text before a secret in a URL: `user:` of `user:password@host`, or the name of a query's field."""

_MARKS = ("ETag", "etag", "md5Hash", "content_md5", "blob_id", "mtime", "LastModified", "last_modified", "updated", "created")
"""What stores call a digest of an object's content or, where they have none, the time of its last change."""


class StoreError(UserError):
    """An object cannot be read or written; the message names its URL, the reason and the remedy."""


def is_url(place: str) -> bool:
    """Whether a place is a URL of a store, and no path of this machine."""
    return _URL.match(place) is not None


def check_no_secrets(url: str) -> None:
    """Raise `StoreError`, which shows no secret, if a URL has a password or a token in it."""
    for part in url.split("::"):  # of a chain, as `zip://name::s3://bucket/file`
        if found := _SECRET.search(part):
            raise StoreError(
                f"{part[: found.end()]}...: has a password or a token, and URLs are printed and written into files; leave it "
                f"out, and give it by the store's environment variables or fsspec's configuration ({_SETTINGS})"
            )


def joined(url: str, *names: str) -> str:
    """The URL of what lies beneath another URL."""
    return "/".join([url.rstrip("/"), *names])


@contextlib.contextmanager
def opened(url: str, mode: Literal["rb", "wb"] = "rb") -> Iterator[BinaryIO]:
    """The bytes of an object, by ranges; or a new object, which is there once the block ends, and is not if it fails.

    Raises `StoreError`, here and in every read or write, that names the object.
    """
    if mode == "rb":
        with _told(url):
            system, path = _system(url)
            file = system.open(path, "rb")
        with file, io.BufferedReader(_Stream(url, file), BLOCK) as reader:
            yield cast(BinaryIO, reader)
        return
    with _told(url):
        # A system of its own: a transaction is of all files that a system writes meanwhile.
        system, path = _system(url, skip_instance_cache=True)
        if system.protocol == ("file", "local"):
            system.auto_mkdir = True
        transaction = system.transaction
        transaction.start()
    try:
        with _told(url):
            file = system.open(path, "wb")
        with io.BufferedWriter(_Stream(url, file), BLOCK) as writer:
            yield cast(BinaryIO, writer)
        with _told(url):
            file.close()
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is told
            transaction.complete(commit=False)
        raise
    with _told(url):
        transaction.complete()


def ranges(url: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    """The bytes `start` to `stop`, exclusive, of an object, per span; together where the store can."""
    with _told(url):
        system, path = _system(url)
        starts, stops = zip(*spans, strict=True) if spans else ((), ())
        found = system.cat_ranges([path] * len(spans), list(starts), list(stops), on_error="raise")
        return [bytes(each) for each in found]


def begin_of(url: str, count: int = -1) -> bytes | None:
    """The first bytes of an object, all if `count` is negative; None if it is absent, or may not be read: some stores answer
    so for what is absent."""
    try:
        if not exists(url):
            return None
        with opened(url) as file:
            return file.read(count)
    except StoreError as error:
        if isinstance(error.__cause__, (IsADirectoryError, PermissionError)):
            return None
        raise


def copied(url: str, path: Path) -> None:
    """Copy an object into a file of this machine."""
    with _told(url):
        system, place = _system(url)
        system.get_file(place, str(path))


@dataclass(frozen=True)
class StoredObject:
    """What a store says of an object: its URL, its bytes (-1 if unsaid), and a word that differs once its content does."""

    url: str
    size: int
    mark: str


def objects(url: str) -> list[StoredObject]:
    """All objects beneath a URL, sorted, in one listing; the object itself, if it is one; none, if nothing is there."""
    with _told(url):
        system, path = _system(url)
        found = sorted(system.find(path, detail=True).items())
    root = path.rstrip("/")
    return [_object(url if each == path else joined(url, each.removeprefix(root).lstrip("/")), info) for each, info in found]


def beneath(url: str) -> dict[str, StoredObject]:
    """All objects beneath a URL by their names relative to it, sorted by URL; an empty name, if the URL is that of an object.

    `StoreError` for a name that leaves the folder, as `a/../../b`. The empty objects that stand for folders are left out.
    """
    names = {each.url.removeprefix(url.rstrip("/")).lstrip("/"): each for each in objects(url)}
    for name, each in names.items():
        if name and not is_inside(PurePosixPath(name).as_posix()):
            raise StoreError(f"{each.url}: its name leads out of {url}; delete this object, or rename it")
    return {name: each for name, each in names.items() if not name.endswith("/")}


def object_of(url: str) -> StoredObject:
    """What a store says of one object."""
    return _object(url, _info(url))


def listed(url: str) -> list[str]:
    """The URLs of all objects beneath a URL, sorted; its own, if it is an object; none, if nothing is there."""
    return [each.url for each in objects(url)]


def size_of(url: str) -> int:
    """Bytes of an object."""
    size = object_of(url).size
    if size < 0:
        raise StoreError(f"{url}: the store does not say how large it is; copy it to this machine and name the copy")
    return size


def exists(url: str) -> bool:
    """Whether there is an object, or anything beneath a URL. Raises `StoreError` where the store does not say."""
    try:
        _info(url)
    except StoreError as error:
        if isinstance(error.__cause__, _ABSENT):
            return False
        raise
    return True


def removed(url: str) -> None:
    """Delete an object, or all that lies beneath a URL; nothing happens where nothing is."""
    if exists(url):
        with _told(url):
            system, path = _system(url)
            system.rm(path, recursive=True)


def _info(url: str) -> dict[str, Any]:
    with _told(url):
        system, path = _system(url)
        return dict(system.info(path))


def _object(url: str, info: Mapping[str, Any]) -> StoredObject:
    size = info.get("size")
    mark = next((info[name] for name in _MARKS if info.get(name) is not None), "")
    # A listing may have a time as a number where a question has it as a date.
    return StoredObject(url, -1 if size is None else int(size), str(mark.timestamp() if isinstance(mark, datetime) else mark))


def _system(url: str, **options: Any) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it."""
    protocol = url.partition("://")[0]
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise StoreError(f"{url}: stores are read by fsspec, which is not here: pip install 'anyformer[stores]'") from None
    try:
        # What was listed is not remembered: this process may have written since, or another one.
        system, path = core.url_to_fs(url, use_listings_cache=False, **options)
    except ImportError as error:
        raise StoreError(f"{url}: {protocol}:// needs a package that is not here ({error}); install it with pip") from None
    except ValueError as error:
        if "not known" not in str(error):
            raise
        raise StoreError(f"{url}: fsspec knows no {protocol}:// ({_LIST} lists those that it knows)") from None
    return system, str(path)


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn whatever a store raises into a `StoreError` about an object."""
    try:
        yield
    except UserError:
        raise
    except _ABSENT as error:
        raise StoreError(
            f"{url}: there is no such object; was it deleted or moved? check its name, bucket and folder"
        ) from error
    except PermissionError as error:
        raise StoreError(f"{url}: no rights to it ({_first(error)}); give this machine credentials that may use it") from error
    except Exception as error:  # each store has errors of its own
        raise StoreError(f"{url}: the store failed ({type(error).__name__}: {_first(error)}); see its settings") from error


def _first(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).splitlines() or [""])[0]


class _Stream(io.RawIOBase):
    """A file of a store whose errors name it."""

    def __init__(self, url: str, file: Any) -> None:
        self._url, self._file = url, file

    def readable(self) -> bool:
        return bool(self._file.readable())

    def writable(self) -> bool:
        return bool(self._file.writable())

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _told(self._url):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with _told(self._url):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        with _told(self._url):
            self._file.write(data)
        return len(data)
