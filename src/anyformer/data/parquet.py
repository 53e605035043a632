"""Records of Parquet files, by pyarrow: what the footer declares is bounded before it is decoded, and records as elsewhere."""

from __future__ import annotations

import importlib
import mmap
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from anyformer.data.file_places import FilePlace, at_hand, folder_of, size_of
from anyformer.data.lines import LONGEST, MOST_PARTS
from anyformer.data.parquet_pages import pages
from anyformer.data.row import Bad, RecordRow
from anyformer.describe import UserError
from anyformer.text.errors import DataError

ROWS = 1024
"""Rows that are decoded at a time, at most."""
ROOM = 2**28
"""Bytes that the rows decoded at a time may take, but for texts, each of which is held once however often it comes."""
FEW = 2**17
"""Rows that a file of any size may have; of more, each takes a byte of it at least."""
_PLAIN, _RATIO = 2**26, 64
"""A row group of more bytes than `_PLAIN` has at most so many per byte of the file: text is 3 to 20 times smaller."""
_MADE = 2**23
"""Bytes of records that are made at a time."""
_TEXTS = ("STRING", "NONE", "JSON", "ENUM")
"""What Parquet calls bytes that are held once."""


def parquet(path: FilePlace, advance: Callable[[int], None], bad: Bad) -> Iterator[RecordRow]:
    """The rows of a Parquet file, a few of them in memory."""
    try:
        _, reading = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise DataError(
            f"{path}: Parquet files are read by pyarrow, which is not here: pip install 'anyformer[data]'"
        ) from None
    number, done, size = 0, 0, size_of(path)
    try:
        with at_hand(path) as here:
            footer = reading.read_metadata(here, memory_map=True)
            total, texts = max(1, footer.num_rows), _texts(footer)
            count = _rows_at_a_time(path, footer, texts, size)
            with reading.ParquetFile(here, memory_map=True, read_dictionary=texts) as file:
                for batch in _batches(path, here, file, count):
                    for values in _records(batch, path, number):
                        yield RecordRow(f"{path}#{number}", values, folder_of(path))
                        number += 1
                    advance(number * size // total - done)
                    done = number * size // total
    except UserError:
        raise
    except Exception as error:  # values that are no text, or no date, raise Python's own errors as well as Arrow's
        raise DataError(f"{path}: not a Parquet file that pyarrow reads, at row {number} ({error}); write it again") from None


def _batches(path: FilePlace, here: Path, file: Any, count: int) -> Iterator[Any]:
    """Rows of one row group at a time, of the file at `here`: pyarrow joins no texts in lists that are held once."""
    with here.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
        for group in range(file.num_row_groups):
            _check_pages(path, view, file.metadata.row_group(group))
            yield from file.iter_batches(batch_size=count, row_groups=[group])


def _check_pages(path: FilePlace, content: memoryview, group: Any) -> None:
    """Refuse a row group whose pages are larger than its footer declares, which is what was checked."""
    for column in map(group.column, range(group.num_columns)):
        offsets = (column.dictionary_page_offset, column.data_page_offset)
        begin = min((at for at in offsets if at is not None and at > 0), default=0)
        with content[begin : begin + column.total_compressed_size] as bytes_of:
            held = sum(page.uncompressed for page in pages(bytes_of))
        if held > column.total_uncompressed_size:
            what = f"pages of {held:,} bytes in a column of {column.total_uncompressed_size:,}"
            raise DataError(f"{path}: {column.path_in_schema} has {what}, by its footer; write the file again")


def _rows_at_a_time(path: FilePlace, footer: Any, texts: Collection[str], size: int) -> int:
    """How many rows are decoded at a time; `DataError` where a file of `size` bytes declares more than it can mean."""
    if footer.num_rows > max(FEW, size):
        raise _refused(path, f"{footer.num_rows:,} rows in {size:,} bytes", "leave out columns that say nothing")
    least = ROWS
    for group in map(footer.row_group, range(footer.num_row_groups)):
        single = repeated = held = 0
        for place in range(group.num_columns):
            column, kind = group.column(place), footer.schema.column(place)
            width = 16 if kind.path in texts else _width(column, kind)
            single += 0 if kind.max_repetition_level else width
            repeated += width * column.num_values if kind.max_repetition_level else 0
            held += column.total_uncompressed_size
        if held > max(_PLAIN, _RATIO * size):
            raise _refused(path, f"{held:,} bytes in a row group, in a file of {size:,}", "write its texts as they are")
        least = min(least, (ROOM - repeated) // max(1, single))
    if least < 1:
        raise _refused(path, f"more than {ROOM:,} bytes in a row, or in the lists of a row group", "write smaller row groups")
    return least


def _width(column: Any, kind: Any) -> int:
    """Bytes of a value at most, once it is decoded."""
    match kind.physical_type:
        case "FIXED_LEN_BYTE_ARRAY":
            return int(kind.length)
        case "BYTE_ARRAY":
            return int(column.total_uncompressed_size)  # each may repeat most of the one before it
    return 16


def _texts(footer: Any) -> list[str]:
    """The columns of which pyarrow can give numbers of texts, and each text once: those of a dictionary, or whole."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = []
    for place in range(footer.num_columns):
        kind = footer.schema.column(place)
        encodings = {name for group in groups for name in group.column(place).encodings}
        deltas = any(name.startswith("DELTA") for name in encodings)
        if kind.physical_type == "BYTE_ARRAY" and kind.logical_type.type in _TEXTS and not deltas:
            found.append(kind.path)
    return found


def _refused(path: FilePlace, what: str, remedy: str) -> DataError:
    return DataError(f"{path}: declares {what}, which would not fit into memory; {remedy}")


def _records(batch: Any, path: FilePlace, number: int) -> Iterator[dict[str, Any]]:
    """The records of a batch, half of it at a time where they would take much."""
    sizes = [_size(column) for column in batch.columns]
    held, parts = (sum(each) for each in zip(*sizes, strict=True)) if sizes else (0, 0)
    if batch.num_rows <= 1 and (held > LONGEST or parts > MOST_PARTS):
        raise DataError(
            f"{path}#{number}: a record of {held:,} bytes and {parts:,} values, and {LONGEST:,} and {MOST_PARTS:,} are most; "
            "write several records instead"
        )
    if batch.num_rows <= 1 or (held <= _MADE and parts <= _MADE // 32):
        yield from batch.to_pylist()
        return
    half = batch.num_rows // 2
    yield from _records(batch.slice(0, half), path, number)
    yield from _records(batch.slice(half), path, number + half)


def _size(array: Any) -> tuple[int, int]:
    """Bytes and values of an array of Arrow's, every text counted as often as it comes."""
    arrow = importlib.import_module("pyarrow")
    kind, types = array.type, arrow.types
    if types.is_dictionary(kind):
        lengths = importlib.import_module("pyarrow.compute").binary_length(array.dictionary)
        return lengths.take(array.indices).sum().as_py() or 0, len(array)
    if types.is_map(kind):
        first, last = (array.offsets[place].as_py() for place in (0, -1))
        inner = [each.slice(first, last - first) for each in (array.keys, array.items)]
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = [array.flatten()]
    elif types.is_struct(kind):
        inner = array.flatten()
    else:
        return array.nbytes, len(array)
    sizes = [_size(each) for each in inner]
    return sum(held for held, _ in sizes), len(array) + sum(parts for _, parts in sizes)
