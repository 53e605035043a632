"""The lines that tell how far a long reading is, where no bar can be drawn."""

from __future__ import annotations

from anyformer.data import progress


def test_lines_say_what_is_done_and_what_is_left(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    advance = progress._lines("reading", 10_000_000, progress.BYTES)
    advance(1_000_000)
    assert capsys.readouterr().err == "", "too early for a line"
    now += 20
    advance(2_000_000)
    assert capsys.readouterr().err == "reading: 3 of 10 MB, 47 s left\n"
    advance(2_000_000)
    assert capsys.readouterr().err == ""
    now += 30
    advance(5_000_000)
    assert capsys.readouterr().err == "reading: 10 of 10 MB, 0 s left\n"


def test_lines_count_rows_where_there_are_no_bytes(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    advance = progress._lines("asking", 3000, "rows")
    now = 111.0
    advance(1000)
    assert capsys.readouterr().err == "asking: 1,000 of 3,000 rows, 22 s left\n"


def test_no_time_is_left_at_the_end_of_a_few_slow_rows(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    advance = progress._lines("asking", 2, "rows")
    now = 140.0
    advance(2)
    assert capsys.readouterr().err == "asking: 2 of 2 rows, 0 s left\n"
