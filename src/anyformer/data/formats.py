"""Files of records, read one record at a time: JSON lines, JSON, CSV, TSV, Parquet. One function per suffix."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anyformer.data.file_places import FilePlace, folder_of
from anyformer.data.json_records import json_lines, json_list
from anyformer.data.lines import LONGEST, RecordBounds, lines, text_of
from anyformer.data.parquet import parquet
from anyformer.data.row import Bad, BadRecord, RecordRow
from anyformer.text.errors import DataError

Advance = Callable[[int], None]
Reader = Callable[[FilePlace, Advance, Bad], Iterator[RecordRow]]


def comma_separated(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """A header, then a record per row (RFC 4180: fields with commas, quotes or line ends stand in double quotes)."""
    return _separated(path, advance, bad, delimiter=",", strict=True)


def tab_separated(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """A header, then a record per line, fields between tabs; quotes are ordinary characters (IANA)."""
    return _separated(path, advance, bad, delimiter="\t", quoting=csv.QUOTE_NONE)


READERS: Mapping[str, Reader] = {
    ".jsonl": json_lines,
    ".json": json_list,
    ".csv": comma_separated,
    ".tsv": tab_separated,
    ".parquet": parquet,
}
"""How a file of records is read, by its suffix."""


def _separated(path: FilePlace, advance: Advance, bad: Bad, **dialect: Any) -> Iterator[RecordRow]:
    csv.field_size_limit(LONGEST)  # of the whole process; its own limit is 128 KiB
    unread: dict[int, str] = {}
    bounds = RecordBounds()

    def texts() -> Iterator[str]:
        for number, line in lines(path, advance):
            bounds.add(f"{path}:{number}", line)
            try:
                yield text_of(line)
            except ValueError as error:
                unread[number] = str(error)
                yield line.decode("utf-8", "replace")

    reader = csv.reader(texts(), **dialect)
    header: list[str] | None = None
    while True:
        first, bounds.size, bounds.parts = reader.line_num + 1, 0, 0
        where = f"{path}:{first}"
        try:
            cells = next(reader, None)
            if cells is None:
                break
            if unread:
                raise ValueError(next(iter(unread.values())))
            if header is None:
                header = _header(where, cells)
            elif len(cells) == len(header):
                yield RecordRow(where, dict(zip(header, cells, strict=True)), folder_of(path))
            elif cells:
                raise ValueError(f"{len(cells)} fields, and the header has {len(header)}")
        except (ValueError, csv.Error) as error:
            if isinstance(error, DataError):
                raise
            bad_row = BadRecord(where, str(error), "give it the fields of the header, in UTF-8, quotes doubled inside quotes")
            if header is None:
                raise bad_row from None
            bad(bad_row)
        unread.clear()
    if header is None:
        raise DataError(f"{path}: the file is empty; its first row has to name the fields")


def _header(where: str, names: list[str]) -> list[str]:
    if not all(names) or len(set(names)) < len(names):
        raise DataError(f"{where}: the header {names} has an empty or repeated name; give every field a name of its own")
    return names
