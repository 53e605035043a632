"""Records as JSON: an object per line, or one list of objects; one record in memory at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from anyformer.data.compressed import opened, told
from anyformer.data.file_places import FilePlace, folder_of
from anyformer.data.lines import NoTextError, RecordBounds, lines, text_after, text_of
from anyformer.data.row import Bad, BadRecord, RecordRow, shown
from anyformer.text.errors import DataError

_EVERY_LINE = "every line has to be one JSON object, in UTF-8"
_ONE_LIST = "a .json file holds one list of objects, in UTF-8; a .jsonl file holds one object per line"
_BLOCK = 256 * 1024
_CUT = 10
"""Characters before the end of a window within which an error may come of where it was cut: those of `-Infinity`, and one."""


def json_lines(path: FilePlace, advance: Callable[[int], None], bad: Bad) -> Iterator[RecordRow]:
    """Every line that is not blank is one JSON object."""
    folder = folder_of(path)
    for number, line in lines(path, advance):
        if line.isspace():
            continue
        where = f"{path}:{number}"
        try:
            if b"\0" in line:
                raise ValueError("binary (it has a NUL)")
            text = text_of(line)
        except ValueError as error:
            bad(NoTextError(where, str(error), _EVERY_LINE))
            continue
        try:
            values = _object(json.loads(text))
        except (ValueError, RecursionError) as error:
            bad(BadRecord(where, _reason(error), _EVERY_LINE))
            continue
        yield RecordRow(where, values, folder)


def json_list(path: FilePlace, advance: Callable[[int], None], bad: Bad) -> Iterator[RecordRow]:
    """One JSON list of objects."""
    with opened(path) as file:
        for number, value in enumerate(_items(_TextBuffer(path, file, told(path, advance)))):
            where = f"{path}#{number}"
            try:
                yield RecordRow(where, _object(value), folder_of(path))
            except ValueError as error:
                bad(BadRecord(where, str(error), "every item of the list has to be an object"))


class _TextBuffer:
    """The text of a file from what was not read of it yet."""

    def __init__(self, path: FilePlace, file: IO[bytes], advance: Callable[[int], None]) -> None:
        self._path, self._file, self._advance = path, file, advance
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._seen, self._lines = "", 0, 0, 1
        self._bounds = RecordBounds()

    def next(self) -> str:
        """The next character that is no space, empty at the end of the file."""
        while (at := _after_space(self._text, self._at)) == len(self._text):
            self._at = at
            if not self._more():
                return ""
        self._at = at
        return self._text[at]

    def take(self, mark: str) -> bool:
        """Whether `mark` comes next; it is passed then."""
        found = self.next() == mark
        self._at += found
        return found

    def value(self) -> Any:
        """The next value."""
        self.next()
        self._bounds = RecordBounds()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT
                if not cut or not self._more():
                    raise self.refused(error.msg, error.pos) from None
                continue
            except RecursionError as error:
                raise self.refused(str(error), self._at) from None
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def refused(self, reason: str, at: int | None = None) -> DataError:
        """The error about the place that was reached, or the character `at`."""
        line = self._lines + self._text.count("\n", 0, self._at if at is None else at)
        return DataError(f"{self._path}:{line}: not valid JSON ({reason}); {_ONE_LIST}")

    def other(self) -> DataError:
        """The error about a file that is no list."""
        return DataError(f"{self._path}: should be a list of objects, got {shown(self._text[self._at :])}; {_ONE_LIST}")

    def _more(self) -> bool:
        """Read as much as is held, and a block at least; False at the end."""
        held = self._text[self._at :]
        block = self._file.read(max(_BLOCK, len(held)))
        self._bounds.add(str(self._path), block)
        try:
            text = text_after(self._decoder, block, self._seen, final=not block)
        except ValueError as error:
            raise DataError(f"{self._path}: {error}; {_ONE_LIST}") from None
        self._lines += self._text.count("\n", 0, self._at)
        self._text, self._at, self._seen = held + text, 0, self._seen + len(block)
        self._advance(len(block))
        return bool(block)


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _items(window: _TextBuffer) -> Iterator[Any]:
    """The items of the one list that a window shows."""
    if not window.take("["):
        raise window.other()
    if not window.take("]"):
        yield window.value()
        while window.take(","):
            yield window.value()
        if not window.take("]"):
            raise window.refused("expecting ',' or ']' after an item")
    if window.next():
        raise window.refused("there is more behind the list")


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"should be a JSON object, got {shown(row)}")
    return row


def _reason(error: Exception) -> str:
    return f"not valid JSON ({error})" if isinstance(error, json.JSONDecodeError | RecursionError) else str(error)
