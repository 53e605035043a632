"""What is said of processes when one of them does not come."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import FrameSummary, extract_stack

import torch

from anyformer.training.parallel.whereabouts import OURS, Whereabouts, lost, told

TORCH = str(Path(torch.__file__).parent)
MINE = FrameSummary("/home/me/mine.py", 3, "main", line="train(run)")
LOOP = FrameSummary(f"{OURS}/training/loop.py", 7, "train", line="go()")
READING = FrameSummary(f"{OURS}/data/reading.py", 9, "read", line="file.read()")
REDUCE = FrameSummary(f"{TORCH}/distributed/distributed_c10d.py", 11, "all_reduce", line="work.wait()")
MODULE = FrameSummary(f"{TORCH}/nn/modules/module.py", 13, "_call_impl", line="return forward_call()")


def test_a_process_is_where_its_innermost_own_code_is():
    for calls, place, waits in (
        ((MINE, LOOP, REDUCE), "train (training/loop.py:7)", True),
        ((MINE, LOOP, MODULE, READING), "read (data/reading.py:9)", False),
        ((MINE, REDUCE, LOOP, READING), "read (data/reading.py:9)", False),  # our code that a schedule of torch calls
        ((MINE, MODULE), "main (/home/me/mine.py:3)", False),
    ):
        where = Whereabouts.of(calls)
        assert (where.place, where.waits) == (place, waits)
        assert "mine.py" in where.stack
        assert Whereabouts.read(where.text()) == where


def test_a_stack_of_this_process_is_read():
    here = Whereabouts.of(extract_stack(sys._getframe()))
    assert here.place.startswith("test_a_stack_of_this_process_is_read (")
    assert not here.waits


def test_who_did_not_come_is_named_with_its_stack():
    waits, reads = Whereabouts.of((MINE, LOOP, REDUCE)), Whereabouts.of((MINE, READING))
    lines = told({0: waits, 1: reads, 2: waits, 4: waits, 5: waits})
    assert lines[0] == f"rank 1 on {reads.machine} did not come: it is in read (data/reading.py:9)"
    assert any("file.read()" in line for line in lines[1:])
    assert lines[-1] == "ranks 0, 2, 4-5 wait in train (training/loop.py:7)"
    assert told({}) == []
    assert told({0: waits}) == ["rank 0 waits in train (training/loop.py:7)"]


def test_a_process_that_is_lost_is_told_in_one_sentence():
    timed = FrameSummary(f"{OURS}/training/parallel/exchange_clock.py", 5, "timed", line="return call()")
    waits, reads = Whereabouts.of((MINE, LOOP, timed)), Whereabouts.of((MINE, READING))
    machines = ["a", "a", "b", "b"]
    assert lost({0: waits, 1: waits, 2: None, 3: waits}, machines) == (
        "rank 2 on b is lost (it ended, or cannot be reached); ranks 0-1, 3 waited for it in train (training/loop.py:7)"
    )
    assert lost({0: reads, 1: None, 2: None, 3: waits}, machines) == (
        "ranks 1-2 on a, b are lost (they ended, or cannot be reached); rank 3 waited for them in train (training/loop.py:7); "
        "rank 0 was in read (data/reading.py:9)"
    )
    assert lost({0: waits, 1: reads}, machines) == ""


def test_few_stacks_are_shown_of_many():
    reads = Whereabouts.of((READING,))
    assert sum("file.read()" in line for line in told(dict.fromkeys(range(9), reads))) == 3
