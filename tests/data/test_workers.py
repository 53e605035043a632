"""Processes that tokenise: what they leave behind, read to the end or not."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from anyformer.data import Bytes, workers
from anyformer.data.vocabulary import make_tokenizer

GROUPS = [["a", "bc"], ["d"], ["", "é"]]
ONE_ANSWER = """
import sys, time
from pathlib import Path
from anyformer.data.pipes import receive, send
receive(sys.stdin.buffer)
send(sys.stdout.buffer, [b""])
receive(sys.stdin.buffer)
time.sleep(30)
(Path(sys.argv[1]) / "waited").touch()
"""


def test_processes_give_the_tokens_in_order_and_close_their_pipes(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(Bytes(), list, list)
    tokenizer.save(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        found = [
            (group, [array.tolist() for array in arrays])
            for group, arrays in workers.encode_in_processes(tmp_path, GROUPS, list, workers=2)
        ]
        gc.collect()
    assert found == [(group, [tokenizer.encode(text) for text in group]) for group in GROUPS]
    assert [str(each.message) for each in told] == [], "a pipe or a process is left to the garbage collector"


def test_a_reader_that_stops_half_way_waits_for_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CODE", ONE_ANSWER)
    answers = workers.encode_in_processes(tmp_path, GROUPS, list, workers=1)
    assert next(answers) == (GROUPS[0], [])
    answers.close()
    assert not (tmp_path / "waited").exists()
