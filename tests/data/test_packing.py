"""Records in rows, as plain loops put them there."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from anyformer.data.packing import PackedRows
from effort import examples


@examples(60)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(1, 10), st.integers(0, 5))
@example([2, 3], 5, 0)
def test_a_row_has_as_many_records_as_fit(lengths, length, seed):
    """One that fits exactly is in it, and one that is longer than any row in none."""
    rows = PackedRows.packed(np.array(lengths), length, seed)
    found = [rows[row] for row in range(len(rows))]
    order = [record for row in found for record in row]
    assert sorted(order) == [record for record, each in enumerate(lengths) if each <= length]
    expected, room = [], 0
    for record in order:
        if not expected or lengths[record] > room:
            expected.append([])
            room = length
        expected[-1].append(record)
        room -= lengths[record]
    assert found == expected
