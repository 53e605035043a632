"""Waiting from the shell: what a terminal shows is timed; and the page shows further results once they are there."""

from __future__ import annotations

import json
import sys

import pytest
from benchmarks import report, waiting

from anyformer.text import Tokenizer


def test_every_token_shows_on_a_terminal():
    tokenizer = Tokenizer.parse(waiting.made_tokenizer(5000).to_str())
    assert tokenizer.vocab_size == 5000
    assert tokenizer.decode(tokenizer.encode(waiting.PROMPT)) == waiting.PROMPT
    assert all(len(tokenizer.decode([token])) in (2, 4) for token in range(256, 5000))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads a terminal as Linux has it")
def test_the_first_token_is_what_comes_after_the_prompt():
    shown = r"import sys, time; print('\x1b[1m' + sys.argv[1] + '\x1b[0m', end='', flush=True)"
    code = f"{shown}; time.sleep(0.3); print('abcd', flush=True)"
    found = waiting.watched([sys.executable, "-c", code, waiting.PROMPT])
    assert found["text"] == "abcd"
    assert 0.3 < found["first"] <= found["last"]
    with pytest.raises(SystemExit, match=r"said .*oh no"):
        waiting.watched([sys.executable, "-c", "raise SystemExit('oh no')"])


def test_other_text_is_no_comparison():
    waiting.same_beginning({"a": "abcdef", "b": "abcdxy"})
    with pytest.raises(SystemExit, match="in different ways"):
        waiting.same_beginning({"a": "abcdef", "b": "abxdef"})


def test_the_page_shows_further_results_once_they_are_there(tmp_path, monkeypatch):
    assert report.record_of("no-such") is None
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert report.further() == report.more() == report.grids() == report.waiting() == []

    def row(name, rate, ratio):
        times = {"first_unit_seconds": 9.0, "first_token_seconds": 0.5, "bytes_before": 10**8, "peak_bytes": 5 * 10**8}
        return {"name": name, "tokens_per_second": rate, "ours_is_faster_by": ratio, **times}

    seen = {"date": "2026-01-01", "machine": {"cpu": "X", "cores": 2}}
    rows = [row("anyformer compiled", 600.0, 1.0), row("a", 300.0, 2.0), row("b", 500.0, 1.2)]
    record = {"base": "anyformer compiled", "shape": {"name": "110m"}, "results": rows, **seen}
    (tmp_path / "training-110m.json").write_text(json.dumps(record))
    (tmp_path / "floors.json").write_text(json.dumps({"steps": {"110m": {"bf16": {"tokens_per_second": 1000.0}}}}))
    (text,) = report.more()
    assert "| training-110m | 600 | b | 500 | 1.20 | 60% | 400 MB | 400 MB | 9.0 |" in text
    rows = [row("anyformer default", 80.0, 1.0), row("llama.cpp", 40.0, 2.0)]
    case = {"results": rows, "share_of_reading": 0.51, **seen}
    (tmp_path / "decoding-grid.json").write_text(json.dumps({"cases": {"mla, int8, batch 1, context 64": case}}))
    (text,) = report.grids()
    assert "| mla, int8, batch 1, context 64 | 80 | 0.50 | 51% |  |  | 40 | 2.00 |" in text
