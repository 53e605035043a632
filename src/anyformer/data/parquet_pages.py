"""What the pages of a column of a Parquet file say of their sizes, read from their headers: what decoding them takes, whatever
the footer says. Headers are structures of Thrift's compact protocol
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_UNCOMPRESSED, _COMPRESSED = 2, 3
"""Numbers of two fields of `PageHeader` in parquet.thrift."""
_DEPTH = 8
"""Structures within one another at most: those of a page header are three."""
_STOP, _TRUE, _FALSE, _BYTE, _NUMBERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 0, 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12


@dataclass(frozen=True)
class Page:
    """Bytes of a page: of its header, of what follows it in the file, and of that once it is decompressed."""

    header: int
    compressed: int
    uncompressed: int


def pages(column: memoryview) -> Iterator[Page]:
    """The pages of a column of one row group. Raises `ValueError` for bytes that are none."""
    at = 0
    while at < len(column):
        fields, end = _struct(column, at, _DEPTH)
        page = Page(end - at, fields.get(_COMPRESSED, -1), fields.get(_UNCOMPRESSED, -1))
        if min(page.compressed, page.uncompressed) < 0:
            raise ValueError(f"the header of a page at byte {at:,} of a column has no sizes")
        yield page
        at = end + page.compressed


def _struct(data: memoryview, at: int, depth: int) -> tuple[dict[int, int], int]:
    """The whole numbers among a structure's fields by their numbers, and where it ends."""
    if not depth:
        raise ValueError(f"the header of a page has more than {_DEPTH} structures within one another")
    fields, number = dict[int, int](), 0
    while (head := _byte(data, at)) != _STOP:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _number(data, at)
        kind = head & 15
        if kind in _NUMBERS:
            fields[number], at = _number(data, at)
        elif kind not in (_TRUE, _FALSE):
            at = _behind(kind, data, at, depth)
    return fields, at + 1


def _behind(kind: int, data: memoryview, at: int, depth: int) -> int:
    """Where a value ends; a truth value is one here that stands in a list."""
    if kind in (_TRUE, _FALSE, _BYTE):
        return at + 1
    if kind in _NUMBERS:
        return _varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        return _struct(data, at, depth - 1)[1]
    if kind not in _LISTS:
        raise ValueError(f"the header of a page has a value of kind {kind}")
    head, at = _byte(data, at), at + 1
    count = head >> 4
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data) - at:  # each takes a byte at least
        raise ValueError(f"the header of a page has a list of {count:,} values")
    for _ in range(count):
        at = _behind(head & 15, data, at, depth - 1)
    return at


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(data, at)
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("the header of a page has a number of more than 64 bits")


def _byte(data: memoryview, at: int) -> int:
    if at >= len(data):
        raise ValueError("the header of a page is cut off")
    return data[at]
