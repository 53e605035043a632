"""Files as bytes, decompressed where their names say so; and what a file is by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from anyformer.data.file_places import FilePlace, size_of
from anyformer.text.errors import DataError


def _zstandard(raw: IO[bytes]) -> IO[bytes]:
    pyarrow = importlib.import_module("pyarrow")
    return io.BufferedReader(pyarrow.input_stream(raw, compression="zstd"))


def _plain(raw: IO[bytes]) -> IO[bytes]:
    return raw


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    return gzip.GzipFile(fileobj=raw, mode="rb")  # type: ignore[return-value]


def _bzip2(raw: IO[bytes]) -> IO[bytes]:
    return bz2.BZ2File(raw, "rb")


def _xz(raw: IO[bytes]) -> IO[bytes]:
    return lzma.LZMAFile(raw, "rb")


_OPEN: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {".gz": _gzip, ".bz2": _bzip2, ".xz": _xz, ".zst": _zstandard}
SUFFIXES = tuple(_OPEN)
"""How the names of compressed files end."""
_PLAIN, _RATIO = 2**26, 256
"""A compressed file that stands for more bytes than `_PLAIN` stands for at most so many for each of its own: texts reach 50."""
_MARK = b"\xef\xbb\xbf"
_FIRST = {
    b"PAR1": ("a Parquet file", "name it .parquet"),
    b"\x1f\x8b": ("compressed by gzip", "let its name end in .gz"),
    b"BZh": ("compressed by bzip2", "let its name end in .bz2"),
    b"\xfd7zXZ\0": ("compressed by xz", "let its name end in .xz"),
    b"\x28\xb5\x2f\xfd": ("compressed by Zstandard", "let its name end in .zst"),
    b"PK\x03\x04": ("a ZIP archive", "unpack it"),
    b"%PDF": ("a PDF", "convert it to text"),
    b"ARROW1": ("an Arrow file", "write it as Parquet"),
    b"SQLite format 3": ("a database of SQLite", "write its texts as JSON lines"),
    b"\xff\xfe": ("text in UTF-16", "write it in UTF-8"),
    b"\xfe\xff": ("text in UTF-16", "write it in UTF-8"),
}
"""First bytes of files that are no text, what such a file is, and what to do with it."""


def suffix_of(path: FilePlace) -> str:
    """The ending of a file's name that says what is in it, in small letters, without that of a compression."""
    ends = [suffix.lower() for suffix in path.suffixes[-2:]]
    if ends and ends[-1] in _OPEN:
        ends.pop()
        return ends[-1] if ends else ""
    return path.suffix.lower()


def is_compressed(path: FilePlace) -> bool:
    """Whether a file is decompressed when it is opened."""
    return path.suffix.lower() in _OPEN


@contextmanager
def opened(path: FilePlace) -> Iterator[IO[bytes]]:
    """The bytes of a file, without the mark that some programs begin UTF-8 with; `DataError` where it cannot be
    decompressed."""
    try:
        with path.open("rb") as raw, _OPEN.get(path.suffix.lower(), _plain)(raw) as content:
            file = io.BufferedReader(_Bounded(path, content)) if is_compressed(path) else content
            if file.peek(len(_MARK)).startswith(_MARK):  # type: ignore[attr-defined]
                file.read(len(_MARK))
            yield file
    except ModuleNotFoundError:
        raise DataError(f"{path}: Zstandard is read by pyarrow, which is not here: pip install 'anyformer[data]'") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, error) from None
    except OSError as error:
        if error.errno is not None or not is_compressed(path):
            raise
        raise _damaged(path, error) from None


class _Bounded(io.RawIOBase):
    """What a compressed file stands for, as long as it is not far more than texts are."""

    def __init__(self, path: FilePlace, content: IO[bytes]) -> None:
        self._path, self._content, self._left = path, content, max(_PLAIN, _RATIO * size_of(path))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._content.readinto(buffer)  # type: ignore[attr-defined]
        self._left -= count
        if self._left < 0:
            raise DataError(
                f"{self._path}: stands for more than {_RATIO} times as many bytes as it has, which no text does; decompress it "
                "and look at it"
            )
        return count


def told(path: FilePlace, advance: Callable[[int], None]) -> Callable[[int], None]:
    """Tells progress in bytes of the file as it lies there: nothing while a compressed one is read."""
    return (lambda count: None) if is_compressed(path) else advance


def looks_like(path: FilePlace) -> tuple[str, str] | None:
    """What a file is by its first bytes, and what to do with it; None where nobody knows."""
    with path.open("rb") as file:
        first = file.read(16)
    return next((found for start, found in _FIRST.items() if first.startswith(start)), None)


def _damaged(path: FilePlace, error: Exception) -> DataError:
    return DataError(f"{path}: cannot be decompressed ({error}); is it whole? compress it again")
