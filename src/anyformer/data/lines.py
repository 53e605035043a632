"""The lines of a file of records, bounded, and bytes as text."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anyformer.data.compressed import opened, told
from anyformer.data.file_places import FilePlace
from anyformer.data.row import BadRecord
from anyformer.text.errors import DataError

LONGEST = 32 * 1024 * 1024
"""Bytes of a record at most: it must fit into memory, where a character of a text may take four bytes, several times."""
MOST_PARTS = 4_000_000
"""Values of a record at most, counted by what stands between them: one of three bytes, `{},`, takes 72 in memory."""
BLANK = 1_000_000
"""Blank lines one after the other at most."""
_BETWEEN = (b",", b"\t", b"[", b"{")


class NoTextError(BadRecord):
    """The bytes of a record are no text."""


@dataclass
class RecordBounds:
    """How much one record has taken so far; `add` refuses more than a record may."""

    size: int = 0
    parts: int = 0

    def add(self, where: str, piece: bytes) -> None:
        """Count a piece of the record; `DataError` names the place where it became too much."""
        self.size += len(piece)
        self.parts += sum(map(piece.count, _BETWEEN))
        if self.size > LONGEST:
            raise DataError(f"{where}: a record of more than {LONGEST:,} bytes; is it text, with line ends and closed quotes?")
        if self.parts > MOST_PARTS:
            raise DataError(f"{where}: a record of more than {MOST_PARTS:,} values; write several records instead")


def lines(path: FilePlace, advance: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers from 1, with no more of one in memory than a record may have."""
    read, blank = told(path, advance), 0
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
            if len(line) > MOST_PARTS:
                RecordBounds().add(f"{path}:{number}", line)
            blank = blank + 1 if len(line) <= 2 else 0
            if blank > BLANK:
                raise DataError(f"{path}:{number}: more than {BLANK:,} blank lines one after the other; is it text?")
            read(len(line))
            yield number, line


def text_of(line: bytes) -> str:
    """A line as text; `ValueError` names the byte that is none."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (0x{line[error.start]:02x} at byte {error.start:,} of it)") from None


def text_after(decoder: codecs.IncrementalDecoder, block: bytes, seen: int, final: bool = False) -> str:
    """The next text of a file of which `seen` bytes were decoded before; `ValueError` names the byte that is none."""
    held = len(decoder.getstate()[0])
    try:
        return decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (0x{error.object[error.start]:02x} at byte {seen - held + error.start:,})") from None
