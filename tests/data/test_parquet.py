"""Parquet: small files that stand for much are refused by what they declare, or read with memory for a few records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from anyformer.data import parquet
from anyformer.data.rows import rows
from anyformer.text import DataError

LONG = "x" * 1_000_000


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **{"compression": "zstd", **options})
    return path


def grown(path: Path) -> int:
    """Bytes by which reading a file makes the process grow at its peak."""
    Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status")
    held = int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0])
    for _ in rows(path):
        pass
    return (int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]) - held) * 1024


@pytest.mark.parametrize(
    "columns",
    [
        {"text": ([LONG] * 400, pyarrow.string())},
        {"chat": ([[{"role": "user", "content": LONG}] * 20] * 20, None)},
        {"texts": ([[LONG] * 20] * 20, None)},
        {"pairs": ([[("a", LONG)] * 20] * 20, pyarrow.map_(pyarrow.string(), pyarrow.string()))},
    ],
)
def test_a_text_that_comes_often_is_held_once(tmp_path: Path, columns: dict[str, Any]) -> None:
    """400 MB of text in a few kB of file, in less than 150 MB."""
    columns = {name: pyarrow.array(values, type=kind) for name, (values, kind) in columns.items()}
    path = written(tmp_path / "a.parquet", columns)
    assert path.stat().st_size < 5000
    assert grown(path) < 150e6


@pytest.mark.parametrize(
    ("columns", "limits", "said"),
    [
        ({"text": ["x"] * 200_000}, {}, r"declares 200,000 rows in [\d,]+ bytes"),
        ({"text": [LONG, LONG + "b"]}, {"_PLAIN": 2**20}, r"declares 2,000,\d{3} bytes in a row group"),
        ({"list": [[0] * 100_000]}, {"ROOM": 2**20}, "bytes in a row, or in the lists of a row group"),
        ({"text": [LONG]}, {"LONGEST": 999_999}, r"a\.parquet#0: a record of 1,000,000 bytes"),
        ({"list": [[LONG] * 40]}, {}, r"a\.parquet#0: a record of 40,000,000 bytes"),
        (
            {"list": [[1], [None] * 500]},
            {"MOST_PARTS": 500, "_MADE": 1},
            r"a\.parquet#1: a record of .* and 50\d values",
        ),
    ],
)
def test_what_would_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], limits: dict[str, int], said: str
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(parquet, name, limit)
    with pytest.raises(DataError, match=said):
        list(rows(written(tmp_path / "a.parquet", {name: pyarrow.array(values) for name, values in columns.items()})))


def test_texts_that_repeat_what_stands_before_them_are_counted_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row stores its end alone."""
    texts = [LONG[:10_000] + str(number) for number in range(400)]
    options = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    monkeypatch.setattr(parquet, "ROOM", 2**20)
    with pytest.raises(DataError, match="bytes in a row, or in the lists of a row group"):
        list(rows(written(tmp_path / "a.parquet", {"list": pyarrow.array([texts])}, **options)))
    flat = written(tmp_path / "b.parquet", {"text": pyarrow.array(texts)}, **options)
    assert parquet._rows_at_a_time(flat, pyarrow.parquet.read_metadata(flat), [], flat.stat().st_size) < 100
    assert [row.values["text"] for row in rows(flat)] == texts


def test_rows_are_the_same_however_many_are_made_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        {"text": "é" * number, "chat": [{"role": "user", "content": None}] * (number % 3), "n": number, "deep": [[number], []]}
        for number in range(100)
    ]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=30)
    for made in (parquet._MADE, 200, 1):
        monkeypatch.setattr(parquet, "_MADE", made)
        assert [dict(row.values) for row in rows(path)] == records
    monkeypatch.setattr(parquet, "ROOM", 5000)
    assert [dict(row.values) for row in rows(path)] == records


def test_a_value_that_python_cannot_hold_is_refused(tmp_path: Path) -> None:
    binary = pyarrow.array([b"\xff"]).view(pyarrow.string())
    far = pyarrow.array([10**12], type=pyarrow.timestamp("s"))
    for column in (binary, far):
        with pytest.raises(DataError, match=r"a\.parquet: not a Parquet file that pyarrow reads, at row 0"):
            list(rows(written(tmp_path / "a.parquet", {"a": column})))
