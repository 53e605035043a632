"""Which process of a run is slow, and how long each waits for the others."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from anyformer.training.journal import read_metrics
from anyformer.training.parallel import exchange_clock
from anyformer.training.parallel.exchange_clock import beside_training, exchanges_timed

SLOWED = Path(__file__).with_name("slowed.py")


def test_every_line_names_the_process_that_waits_least(run_of, start, tmp_path):
    finished = start(2, SLOWED, run_of("llama-3-8b"), "run")
    assert finished.returncode == 0, finished.stderr[-3000:]
    first, *rows = [row["usage"] for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    assert "slowest" not in first, "no update was made before it"
    host = platform.node()
    for row in rows:
        assert row["slowest"] == {"rank": 1, "host": host, "own": 1.5}
        assert row["fastest"] == {"rank": 0, "host": host, "own": 0.5}
    assert f"own time: rank 1 on {host} 1.50, rank 0 on {host} 0.50 of the median's" in finished.stdout


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_exchanges_are_timed_from_their_start_to_the_end_of_the_wait(group, monkeypatch):
    readings = iter(range(1000))
    monkeypatch.setattr(exchange_clock, "clock", lambda: float(next(readings)))
    before = dist.ProcessGroup.allreduce, dist.Work.wait
    x = torch.ones(3)
    with exchanges_timed(torch.device("cpu")) as timer:
        assert timer.seconds == 0
        dist.all_reduce(x)
        assert timer.seconds == 2, "a second to start it, one to wait for it"
        work = dist.all_reduce(x, async_op=True)
        assert timer.seconds == 3
        work.wait()
        assert timer.seconds == 4
        with beside_training():
            dist.all_reduce(x)
        assert timer.seconds == 4, "what a thread beside training sends is no wait of training"
    assert (dist.ProcessGroup.allreduce, dist.Work.wait) == before, "nothing stays in torch"
    dist.all_reduce(x)
    assert timer.seconds == 4


def test_on_a_gpu_exchanges_take_the_time_of_their_stream(monkeypatch):
    at, waited = [0.0], []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at, at[0] = at[0], at[0] + 5.0

        def synchronize(self):
            waited.append(self.at)

        def elapsed_time(self, other):
            return other.at - self.at  # milliseconds

    monkeypatch.setattr("torch.cuda.Event", Event)
    timer = exchange_clock.ExchangeClock(torch.device("cuda"))
    sent = timer.around(lambda x: x + 1)
    assert [sent(1), sent(2)] == [2, 3]
    assert waited == [], "nothing waits for a GPU before the time is asked for"
    assert timer.seconds == timer.seconds == 0.01
    assert sorted(waited) == [5.0, 15.0], "and each is waited for once"
