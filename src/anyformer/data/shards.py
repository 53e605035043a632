"""Tokens on disk: the files of one split, written in shards and read through memory maps."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from anyformer.data.stored_numbers import StoredNumbers
from anyformer.files import PlaceError, sha256, write_text
from anyformer.text.errors import DataError

Numbers: TypeAlias = NDArray[Any] | StoredNumbers
SHARD_TOKENS = 2**27
"""Tokens per file; 256 MiB at two bytes each."""


class Tokens:
    """A long sequence of token numbers in parts, mapped into memory or in a store; a slice is a copy in int64."""

    def __init__(self, parts: Sequence[Numbers]) -> None:
        self._parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in self._parts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if self._parts else 0

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> NDArray[np.int64]: ...
    def __getitem__(self, place: int | slice) -> int | NDArray[np.int64]:
        if isinstance(place, int):
            start = range(len(self))[place]
            return int(self._read(start, start + 1)[0])
        start, stop, step = place.indices(len(self))
        assert step == 1, "tokens are read in runs"
        return self._read(start, max(start, stop))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.int64, copy=False)

    def runs(self, starts: Sequence[int], length: int) -> list[NDArray[np.int64]]:
        """The runs of `length` tokens that begin at some places, asked of a store together."""
        for part, end in zip(self._parts, self._ends.tolist(), strict=True):
            if isinstance(part, StoredNumbers):
                begin = end - len(part)
                here = [(max(start - begin, 0), start + length - begin) for start in starts]
                part.fetch((start, stop) for start, stop in here if start < len(part) and stop > 0)
        return [self[start : start + length] for start in starts]

    def _read(self, start: int, stop: int) -> NDArray[np.int64]:
        result = np.empty(stop - start, dtype=np.int64)
        number = int(np.searchsorted(self._ends, start, side="right"))
        filled = 0
        while filled < len(result):
            part = self._parts[number]
            offset = start + filled - (int(self._ends[number]) - len(part))
            run = part[offset : offset + len(result) - filled]
            result[filled : filled + len(run)] = run
            filled += len(run)
            number += 1
        return result


@dataclass(frozen=True, eq=False)
class TokenRun:
    """A run of tokens of one split: the places in it at which documents begin, and the bytes of text that it spells."""

    tokens: NDArray[Any]
    starts: NDArray[np.int64]
    bytes: int

    @classmethod
    def of(cls, name: str, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The run among `arrays` that a split's name begins."""
        return cls(arrays[f"{name}_tokens"], arrays[f"{name}_starts"], int(arrays[f"{name}_bytes"]))

    def arrays(self, name: str, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
        """It as arrays whose names begin with that of its split."""
        return {
            f"{name}_tokens": self.tokens.astype(dtype),
            f"{name}_starts": self.starts,
            f"{name}_bytes": np.array(self.bytes, dtype=np.int64),
        }


class RunWriter:
    """Gathers a run of tokens; `before` and `behind`: tokens around each document."""

    def __init__(self, before: Sequence[int] = (), behind: Sequence[int] = ()) -> None:
        self._before, self._behind = (np.array(edge, dtype=np.uint32) for edge in (before, behind))
        self._runs: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)]
        self._starts: list[int] = []
        self._length = self._bytes = 0

    def add(self, tokens: NDArray[np.uint32], size: int, begins: bool, ends: bool) -> None:
        """Append tokens that spell `size` bytes of text, of a document that begins or ends with them."""
        if begins:
            self._starts.append(self._length)
        for part in ([self._before] * begins, [tokens], [self._behind] * ends):
            self._runs += part
            self._length += sum(map(len, part))
        self._bytes += size

    def run(self) -> TokenRun:
        """All that was added."""
        return TokenRun(np.concatenate(self._runs), np.array(self._starts, dtype=np.int64), self._bytes)


class SplitWriter:
    """Writes one split: `NAME-00000.bin` ... with tokens, and `NAME-documents.bin` with each document's first place."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any], shard: int = SHARD_TOKENS) -> None:
        self._folder, self._name, self._dtype, self._shard = folder, name, dtype, shard
        self._files: list[HashedFile] = []
        self._starts = HashedFile(folder / f"{name}-documents.bin", 8)
        self._tokens = self._bytes = 0

    def add(self, run: TokenRun) -> None:
        """Append a run of tokens."""
        self._starts.write((run.starts + self._tokens).astype("<i8"))
        self._append(run.tokens)
        self._bytes += run.bytes

    def close(self) -> dict[str, Any]:
        """Flush all files to disk; return the split's entry for the index."""
        shards = [file.close() for file in self._files]
        return {"tokens": self._tokens, "bytes": self._bytes, "shards": shards, "starts": self._starts.close()}

    def _append(self, tokens: NDArray[Any]) -> None:
        while len(tokens):
            left = self._shard - self._tokens % self._shard
            if left == self._shard:
                path = self._folder / f"{self._name}-{len(self._files):05d}.bin"
                self._files.append(HashedFile(path, self._dtype.itemsize))
            run, tokens = tokens[:left], tokens[left:]
            self._files[-1].write(run.astype(self._dtype))
            self._tokens += len(run)


class HashedFile:
    """A file of numbers, `width` bytes each, that is hashed as it is written."""

    def __init__(self, path: Path, width: int) -> None:
        self._path, self._width = path, width
        self._file: IO[bytes] = path.open("wb")
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, numbers: NDArray[Any]) -> None:
        data = numbers.tobytes()
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    def close(self) -> dict[str, Any]:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"file": self._path.name, "count": self._size // self._width, "sha256": self._hash.hexdigest()}


def token_dtype(vocab: int) -> np.dtype[Any]:
    """The smaller of two formats that hold every token number: 16 or 32 bits, little-endian."""
    return np.dtype("<u2" if vocab <= 2**16 else "<u4")


class NumberFiles(Protocol):
    """Where the files of numbers are that an index names."""

    def numbers(self, entry: dict[str, Any], dtype: np.dtype[Any]) -> Numbers:
        """A file; `DataError` if it is not what the index says."""

    def starts(self, entry: dict[str, Any]) -> NDArray[Any]:
        """The file of the places at which documents or records begin."""


class FilesOnDisk:
    """Files in a folder, mapped into memory; `verify`: hashed first, unless they were since they last changed."""

    def __init__(self, folder: Path, verify: bool = False) -> None:
        self._folder, self._verify = folder, verify
        self._known = self._noted = _noted(folder) if verify else {}

    def numbers(self, entry: dict[str, Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        path, folder = self._folder / entry["file"], self._folder
        wanted = entry["count"] * dtype.itemsize
        try:
            size, changed = _mark(path)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); delete {folder} to have it made again") from None
        if size != wanted:
            raise DataError(f"{path}: has {size:,} bytes, should have {wanted:,}; delete {folder} to have it made again")
        if self._verify and self._known.get(path.name) != [size, changed]:
            if (digest := sha256(path)) != entry["sha256"]:
                raise DataError(
                    f"{path}: its content changed on disk (SHA-256 {digest[:12]}..., should be {entry['sha256'][:12]}...); "
                    f"delete {folder} to have it made again"
                )
            self._known = {**self._known, path.name: [size, changed]}
        # An empty file cannot be mapped.
        return np.memmap(path, dtype=dtype, mode="r") if size else np.zeros(0, dtype=dtype)

    def starts(self, entry: dict[str, Any]) -> NDArray[Any]:
        return self.numbers(entry, np.dtype("<i8"))

    def note(self) -> None:
        """Note beside the folder what was hashed, so that it is not hashed at every start."""
        if self._known != self._noted:
            _note(self._folder, self._known)


def note_written(folder: Path) -> None:
    """Note the files of numbers in a folder, which were hashed as they were written."""
    _note(folder, {path.name: _mark(path) for path in folder.glob("*.bin")})


def _mark(path: Path) -> list[int]:
    """Bytes and time of change (ns): if one differs, the file changed."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _notes(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.verified.json")


def _noted(folder: Path) -> dict[str, list[int]]:
    try:
        return dict(json.loads(_notes(folder).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _note(folder: Path, known: Mapping[str, list[int]]) -> None:
    with contextlib.suppress(PlaceError):  # beside a folder that can only be read
        write_text(_notes(folder), json.dumps(known))


def in_memory(tokens: ArrayLike) -> Tokens:
    """`Tokens` over an array in memory."""
    return Tokens([np.asarray(tokens)])
