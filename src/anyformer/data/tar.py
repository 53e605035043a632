"""Archives in the form of WebDataset: files of one stem, one after the other, are a record. Read forwards, file by file."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any, cast

from anyformer.data.file_places import FilePlace, folder_of, size_of
from anyformer.data.images import SUFFIXES as IMAGES
from anyformer.data.lines import LONGEST, RecordBounds, text_of
from anyformer.data.row import Bad, BadRecord, RecordRow
from anyformer.describe import UserError
from anyformer.sound import SUFFIXES as SOUNDS
from anyformer.text.errors import DataError

MEMBERS = 64
"""Files of a record at most."""
_TEXTS = frozenset({"txt", "text", "transcript", "cls", "id"})
"""What the names of files of text end in."""
_FIELDS = {
    **{suffix.removeprefix("."): "image" for suffix in (*IMAGES, ".webp", ".gif", ".bmp", ".tif", ".tiff")},
    **{suffix.removeprefix("."): "sound" for suffix in SOUNDS},
    "txt": "text",
    "cls": "label",
}
"""The fields that a file's content is by what its name ends in, besides the one of that name."""


@dataclass
class _Stem:
    """The files of a record so far, and why they cannot be used, if so."""

    name: str
    number: int
    values: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    bad: str = ""


def tar(path: FilePlace, advance: Callable[[int], None], bad: Bad) -> Iterator[RecordRow]:
    """The records of a .tar file: `a/1.jpg`, `a/1.cls` are {"jpg", "image", "cls", "label"} of the record `a/1`.

    The stem is what stands before the first dot behind the last `/`; what stands behind it names the field. Texts (`txt`,
    `cls`) are read as UTF-8, the fields of an object in `json` are the record's own, all else stays bytes.
    """
    done, size, number = 0, size_of(path), 0
    stem: _Stem | None = None
    try:
        with path.open("rb") as raw, tarfile.TarFile(fileobj=cast(Any, _PartReader(raw))) as archive:
            for member in _members(raw, archive):
                if member.isdir() or PurePosixPath(member.name).name.startswith("."):
                    continue
                name, ending = _parted(member.name)
                if stem is None or stem.name != name:
                    yield from _row(path, stem, bad)
                    stem = _Stem(name, number)
                    number += 1
                _add(stem, ending, member, archive)
                advance(min(size, archive.offset) - done)
                done = min(size, archive.offset)
    except UserError:
        raise
    except Exception as error:  # headers lead their reader to whatever its numbers do
        where = f"{path}: not a whole .tar file, behind its record {number - 1}" if number else f"{path}: no .tar file"
        raise DataError(f"{where} ({type(error).__name__}: {error}); write it again, not compressed") from None
    yield from _row(path, stem, bad)
    advance(size - done)


def _members(raw: IO[bytes], archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members in order; `ValueError` where the archive goes back, or ends at what is no end."""
    reached = -1
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]  # of which it would keep one per file
        if archive.offset <= reached or member.size < 0:
            raise ValueError(f"a member of {member.size:,} bytes, behind which it goes back")
        reached = archive.offset
        yield member
    raw.seek(archive.offset)
    if raw.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise ValueError(f"no header at byte {archive.offset:,}")


class _PartReader:
    """A file of which no more is read at once than a record may have: headers say how long they are."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self.name, self.mode = raw, "", "rb"

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST:
            raise ValueError(f"a part of {size:,} bytes, and {LONGEST:,} is the most")
        return self._raw.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._raw.seek(place, whence)

    def tell(self) -> int:
        return self._raw.tell()


def _parted(name: str) -> tuple[str, str]:
    """`a/b.c.jpg` -> `a/b` and `c.jpg`, in small letters."""
    ending = "".join(PurePosixPath(name).suffixes)
    return name.removesuffix(ending), ending.removeprefix(".").lower()


def _add(stem: _Stem, ending: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
    """Read a file of a record, unless the record has a fault already."""
    stem.size += member.size
    if stem.bad:
        return
    if not member.isreg() or member.issparse():
        stem.bad = f"{member.name!r} is no plain file"
    elif not ending or ending in stem.values:
        stem.bad = f"{member.name!r} has no ending that names a field, or one that the record has already"
    elif stem.size > LONGEST or len(stem.values) >= MEMBERS:
        stem.bad = f"more than {LONGEST:,} bytes, or {MEMBERS} files"
    else:
        content = archive.extractfile(member)
        assert content is not None, "a plain file"
        stem.values[ending] = content.read()


def _row(path: FilePlace, stem: _Stem | None, bad: Bad) -> Iterator[RecordRow]:
    """The record, or what is wrong with it."""
    if stem is None:
        return
    where = f"{path}#{stem.number}"
    if not stem.bad:
        try:
            yield RecordRow(where, _values(where, stem.values), folder_of(path))
            return
        except UserError as error:
            stem.bad = f"{stem.name}.json: {error}"
        except (ValueError, RecursionError) as error:
            stem.bad = f"{stem.name}: {error}"
    bad(BadRecord(where, stem.bad, "write plain files of one stem, texts in UTF-8, one after the other"))


def _values(where: str, files: dict[str, Any]) -> dict[str, Any]:
    values = {ending: text_of(file).strip() if ending in _TEXTS else file for ending, file in files.items()}
    values |= {field: values[ending] for ending, field in _FIELDS.items() if ending in values and field not in values}
    if "json" in files:
        RecordBounds().add(where, files["json"])
        read = json.loads(text_of(files["json"]))
        values = {**read, **values, "json": read} if isinstance(read, dict) else {**values, "json": read}
    return values
