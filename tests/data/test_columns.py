"""Columns of numbers in memory: what was put in comes out."""

from __future__ import annotations

import numpy as np

from anyformer.data.columns import Column, ColumnType


def test_a_column_gives_every_record_its_own_numbers():
    records = [[1, 2, 3], [], [4], [5, 6]]
    column = Column.of(ColumnType("int64"), records)
    assert len(column) == len(records)
    assert [column[number].tolist() for number in range(len(column))] == records
    assert column.lengths.tolist() == [3, 0, 1, 2]
    assert np.array_equal(column.numbers, [1, 2, 3, 4, 5, 6])
