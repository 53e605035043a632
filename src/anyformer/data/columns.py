"""Records on disk: a file of numbers per column, written once and read through memory maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from anyformer.data.shards import HashedFile, NumberFiles, Numbers

Record = Mapping[str, NDArray[Any]]
"""The numbers of one record by column: (n,) where records differ in length, else the column's own shape."""


@dataclass(frozen=True)
class ColumnType:
    """What a column holds: numbers of `dtype`, as many in every record as `shape` says, or any number where it is None."""

    dtype: str
    shape: tuple[int, ...] | None = None


TOKENS = ColumnType("<u4")
"""A text's tokens."""
FLAGS = ColumnType("|u1")
"""A byte beside each token."""
LABEL = ColumnType("<i8", ())
"""The number of a class."""
NUMBER = ColumnType("<f8", ())
"""A real number."""


@dataclass(frozen=True, eq=False)
class Column:
    """The numbers of all records, one after the other; record i has numbers[starts[i] : starts[i + 1]], in the shape of
    `type`."""

    type: ColumnType
    numbers: Numbers
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, type: ColumnType, records: list[Any]) -> Self:
        """A column in memory."""
        arrays = [np.asarray(record, dtype=type.dtype).ravel() for record in records]
        lengths = [0, *(len(array) for array in arrays)]
        return cls(type, np.concatenate([*arrays, np.zeros(0, type.dtype)]), np.cumsum(lengths, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, record: int) -> NDArray[Any]:
        numbers = np.array(self.numbers[self.starts[record] : self.starts[record + 1]])
        return numbers if self.type.shape is None else numbers.reshape(self.type.shape)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of numbers per record."""
        return np.diff(self.starts)


@dataclass(frozen=True, eq=False)
class RecordTable:
    """The records of one split; `bytes` of all texts in UTF-8; `names`: what the numbers of a column of classes stand
    for."""

    name: str
    columns: Mapping[str, Column]
    bytes: int
    names: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, types: Mapping[str, ColumnType], records: list[Mapping[str, ArrayLike]], name: str = "split") -> Self:
        """A table in memory."""
        return cls(name, {key: Column.of(type, [row[key] for row in records]) for key, type in types.items()}, 0, {})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, record: int) -> Record:
        return {name: column[record] for name, column in self.columns.items()}

    @property
    def words(self) -> str:
        """Its size in words."""
        return f"{len(self):,} records"

    def lengths(self, column: str) -> NDArray[np.int64]:
        """The number of numbers that each record has in a column."""
        return self.columns[column].lengths


@dataclass(frozen=True, eq=False)
class TableRun:
    """Some records of one split, one after the other: of each column all numbers, and how many each record has."""

    numbers: Mapping[str, NDArray[Any]]
    lengths: Mapping[str, NDArray[np.int64]]
    records: int
    bytes: int

    @classmethod
    def of(cls, types: Mapping[str, ColumnType], records: Sequence[Mapping[str, ArrayLike]], size: int) -> Self:
        """Records of texts of `size` bytes."""
        numbers, lengths = {}, {}
        for key, type in types.items():
            arrays = [np.asarray(record[key]).ravel() for record in records]
            lengths[key] = np.array([len(array) for array in arrays], dtype="<i8")
            wrong = [] if type.shape is None else lengths[key][lengths[key] != prod(type.shape)].tolist()
            assert not wrong, f"{key} has {wrong[0]} numbers"
            numbers[key] = np.concatenate([np.zeros(0, dtype=type.dtype), *(each.astype(type.dtype) for each in arrays)])
        return cls(numbers, lengths, len(records), size)

    @classmethod
    def read(cls, name: str, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The run among `arrays` that a split's name begins."""
        parts: dict[str, dict[str, NDArray[Any]]] = {"numbers": {}, "lengths": {}}
        for part, found in parts.items():
            begin = f"{name} {part} "
            found |= {key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)}
        records, size = arrays[f"{name} size"].tolist()
        return cls(parts["numbers"], parts["lengths"], records, size)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """It as arrays whose names begin with that of its split."""
        numbers = {f"{name} numbers {key}": array for key, array in self.numbers.items()}
        lengths = {f"{name} lengths {key}": array for key, array in self.lengths.items()}
        return {**numbers, **lengths, f"{name} size": np.array([self.records, self.bytes], dtype=np.int64)}


class TableWriter:
    """Writes the records of one split: `NAME-COLUMN.bin` per column, and `NAME-COLUMN-starts.bin` where lengths differ."""

    def __init__(self, folder: Path, name: str, types: Mapping[str, ColumnType]) -> None:
        self._types = dict(types)
        self._files = {
            key: HashedFile(folder / f"{name}-{key}.bin", np.dtype(type.dtype).itemsize) for key, type in types.items()
        }
        self._starts = {key: HashedFile(folder / f"{name}-{key}-starts.bin", 8) for key in types if types[key].shape is None}
        self._ends = dict.fromkeys(types, 0)
        self._count = self._bytes = 0
        for file in self._starts.values():
            file.write(np.zeros(1, dtype="<i8"))

    def add(self, run: TableRun) -> None:
        """Append some records."""
        for key in self._types:
            self._files[key].write(run.numbers[key])
            if key in self._starts:
                self._starts[key].write((self._ends[key] + np.cumsum(run.lengths[key])).astype("<i8"))
            self._ends[key] += int(run.lengths[key].sum())
        self._count += run.records
        self._bytes += run.bytes

    def close(self) -> dict[str, Any]:
        """Flush all files to disk; return the split's entry for the index."""
        columns = {
            key: {
                "dtype": type.dtype,
                "shape": None if type.shape is None else list(type.shape),
                "numbers": self._files[key].close(),
                "starts": self._starts[key].close() if key in self._starts else None,
            }
            for key, type in self._types.items()
        }
        return {"records": self._count, "bytes": self._bytes, "columns": columns}


def open_table(name: str, entry: Mapping[str, Any], names: Mapping[str, tuple[str, ...]], files: NumberFiles) -> RecordTable:
    """Map the files of a split that `TableWriter` wrote; `DataError` names a file of another size, or content."""
    columns = {}
    for key, column in entry["columns"].items():
        shape = None if column["shape"] is None else tuple(column["shape"])
        numbers = files.numbers(column["numbers"], np.dtype(column["dtype"]))
        if shape is None:
            starts = files.starts(column["starts"])
        else:
            starts = np.arange(entry["records"] + 1, dtype=np.int64) * prod(shape)
        columns[key] = Column(ColumnType(column["dtype"], shape), numbers, starts)
    return RecordTable(name, columns, entry["bytes"], names)


def padded(arrays: Sequence[ArrayLike], length: int, fill: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Rows of at most `length` numbers as one array (rows, length), `fill` after every row's end."""
    result = np.full((len(arrays), length), fill, dtype=dtype)
    for row, array in zip(result, arrays, strict=True):
        numbers = np.asarray(array)
        row[: len(numbers)] = numbers
    return result
