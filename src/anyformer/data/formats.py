"""Files of records, read one record at a time: JSON lines, JSON, CSV, TSV, Parquet. One function for each suffix."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from anyformer.data.compressed import opened, told
from anyformer.data.row import Bad, BadRecord, Row, shown
from anyformer.text.errors import DataError

Advance = Callable[[int], None]
Reader = Callable[[Path, Advance, Bad], Iterator[Row]]
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line, and of a field of CSV, at most: a line must fit into memory."""
LARGEST_JSON = 256 * 1024 * 1024
"""Bytes of a `.json` file at most: it is read whole."""
_BOM = b"\xef\xbb\xbf"


def json_lines(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """Every line that is not blank is one JSON object."""
    decode, folder = json.JSONDecoder(parse_constant=_no_number).decode, path.parent
    for number, line in _lines(path, advance):
        if line.isspace() or not line:
            continue
        where = f"{path}:{number}"
        try:
            values = _object(decode(_decoded(line)))
        except (ValueError, RecursionError) as error:
            bad(BadRecord(where, _reason(error), "every line has to be one JSON object, in UTF-8"))
            continue
        yield Row(where, values, folder)


def json_list(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """One JSON list of objects."""
    with opened(path) as file:
        content = file.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise DataError(
            f"{path}: a .json file is read whole, so it may have {LARGEST_JSON:,} bytes at most; write JSON lines instead, one "
            "object in each line of a .jsonl file, which are read one by one"
        )
    try:
        rows = json.loads(_decoded(content.removeprefix(_BOM)), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}{line}: {_reason(error)}; a .json file holds one list of objects, in UTF-8") from None
    told(path, advance)(len(content))
    if not isinstance(rows, list):
        raise DataError(f"{path}: should be a list of objects, got {shown(rows)}; one object in each line is a .jsonl file")
    for number, row in enumerate(rows):
        try:
            yield Row(f"{path}#{number}", _object(row), path.parent)
        except ValueError as error:
            bad(BadRecord(f"{path}#{number}", str(error), "every item of the list has to be an object"))


def comma_separated(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """A header, then a record in each row (RFC 4180: fields with commas, quotes or line ends stand in double quotes)."""
    return _separated(path, advance, bad, delimiter=",", strict=True)


def tab_separated(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """A header, then a record in each line, fields between tabs; quotes are ordinary characters (IANA)."""
    return _separated(path, advance, bad, delimiter="\t", quoting=csv.QUOTE_NONE)


def parquet(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """The rows of a Parquet file, by pyarrow, one row group in memory."""
    try:
        pyarrow, reading = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise DataError(
            f"{path}: Parquet files are read by pyarrow, which is not here: pip install 'anyformer[data]'"
        ) from None
    number, done, size = 0, 0, path.stat().st_size
    try:
        with reading.ParquetFile(path, memory_map=True) as file:
            total = max(1, file.metadata.num_rows)
            for batch in file.iter_batches(batch_size=1024):
                for values in batch.to_pylist():
                    yield Row(f"{path}#{number}", values, path.parent)
                    number += 1
                advance(number * size // total - done)
                done = number * size // total
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that pyarrow reads, at row {number} ({error}); write it again") from None


READERS: Mapping[str, Reader] = {
    ".jsonl": json_lines,
    ".json": json_list,
    ".csv": comma_separated,
    ".tsv": tab_separated,
    ".parquet": parquet,
}
"""How a file of records is read, by its suffix."""


def _lines(path: Path, advance: Advance) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers from 1, without the mark that some programs begin a file with."""
    read = told(path, advance)
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                raise DataError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is it text, with line ends?")
            read(len(line))
            yield number, line.removeprefix(_BOM) if number == 1 else line


def _separated(path: Path, advance: Advance, bad: Bad, **dialect: Any) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_LINE)  # of the whole process; its own limit is 128 KiB
    unread: dict[int, str] = {}

    def texts() -> Iterator[str]:
        for number, line in _lines(path, advance):
            try:
                yield _decoded(line)
            except ValueError as error:
                unread[number] = str(error)
                yield line.decode("utf-8", "replace")

    reader = csv.reader(texts(), **dialect)
    header: list[str] | None = None
    while True:
        first = reader.line_num + 1
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
                yield Row(where, dict(zip(header, cells, strict=True)), path.parent)
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
        raise DataError(f"{where}: the header {names} has an empty or repeated name; name every field, each once")
    return names


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (0x{line[error.start]:02x} at byte {error.start:,} of it)") from None


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"should be a JSON object, got {shown(row)}")
    return row


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _reason(error: Exception) -> str:
    return f"not valid JSON ({error})" if isinstance(error, json.JSONDecodeError | RecursionError) else str(error)
