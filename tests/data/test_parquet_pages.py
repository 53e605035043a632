"""Headers of Parquet's pages: their sizes add up to what a true footer says, and a footer that lies is found out."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from anyformer.data.parquet_pages import pages
from anyformer.data.rows import rows
from anyformer.text import DataError

TABLE = {
    "text": ["a long text " * number for number in range(3000)],
    "few": ["x", "y", None] * 1000,
    "flag": [True, False, None] * 1000,
    "number": [number / 7 for number in range(3000)],
    "lists": [[{"role": "user", "parts": [number]}] * (number % 4) for number in range(3000)],
}


@pytest.mark.parametrize("options", [
    {}, {"compression": "none"}, {"data_page_version": "2.0"}, {"use_dictionary": False, "data_page_size": 1000},
    {"write_statistics": False}, {"row_group_size": 700, "write_page_checksum": True},
    {"compression": "snappy", "write_page_index": True},
])  # fmt: skip
def test_sizes_of_pages_add_up_to_what_the_footer_says(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table(TABLE), path, **{"compression": "zstd", **options})
    content, footer = memoryview(path.read_bytes()), pyarrow.parquet.read_metadata(path)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            begin = column.dictionary_page_offset or column.data_page_offset
            found = list(pages(content[begin : begin + column.total_compressed_size]))
            assert sum(page.header + page.compressed for page in found) == column.total_compressed_size
            assert sum(page.header + page.uncompressed for page in found) == column.total_uncompressed_size
    assert sum(1 for _ in rows(path)) == 3000


def test_a_footer_that_says_less_than_the_pages(tmp_path: Path) -> None:
    """100 MB in a few kB, in a column that says of itself that it has 100 bytes."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x" * 10**8]}), path, compression="zstd", use_dictionary=False)
    total = pyarrow.parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    content = path.read_bytes()
    begin = int.from_bytes(content[-8:-4], "little")
    head, footer = content[: -8 - begin], content[-8 - begin :]
    assert footer.count(_varint(total, 4)) >= 1
    path.write_bytes(head + footer.replace(_varint(total, 4), _varint(100, 4)))
    assert pyarrow.parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 100
    with pytest.raises(DataError, match=r"a\.parquet: text has pages of 100,000,\d{3} bytes in a column of 100, by its footer"):
        list(rows(path))


def test_damaged_headers_end_in_words_or_sizes() -> None:
    draw = random.Random(0)
    for _ in range(3000):
        damaged = memoryview(draw.randbytes(draw.choice((1, 5, 40, 400))))
        with suppress(ValueError):
            assert all(min(page.header, page.compressed, page.uncompressed) >= 0 for page in pages(damaged))
    deep = memoryview(b"\x1c" * 100_000)
    with pytest.raises(ValueError, match="more than 8 structures"):
        list(pages(deep))


def _varint(value: int, length: int) -> bytes:
    """A number of Thrift's, in so many bytes."""
    value *= 2
    return bytes((value >> 7 * place & 127) | 128 * (place < length - 1) for place in range(length))
