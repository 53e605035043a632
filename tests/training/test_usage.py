"""What an update makes of the machine: each figure by its formula, on a clock of the test's own."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch
from rich.console import Console

from anyformer.costs.named_hardware import DEVICES, recognised
from anyformer.describe import change_all
from anyformer.plan import Plan
from anyformer.training import resume, train, usage
from anyformer.training.journal import read_metrics
from anyformer.training.parallel import Alone
from anyformer.training.precision import Host
from anyformer.training.priced import flops_of
from anyformer.training.usage import OwnTime, UpdateWork, UsageMeter, extremes, words

QUIET = Console(quiet=True)
HOST = Host(torch.device("cpu"), {"fp32": 1e9})
WORK = UpdateWork(tokens=600, model_flops=3e6, executed=4e6, peak=2e7)


@dataclass
class Clock:
    """Seconds that a test lets pass, of which some are waits for other processes."""

    now: float = 0.0
    waits: float = 0.0

    def passes(self, seconds: float, waiting: float = 0.0) -> None:
        self.now += seconds
        self.waits += waiting


@pytest.fixture
def meter(monkeypatch):
    time = Clock()
    monkeypatch.setattr(usage, "clock", lambda: time.now)

    @dataclass(frozen=True)
    class Waiting(Alone):
        size: int = 2

        def waited(self) -> float:
            return time.waits

    return time, UsageMeter(Waiting(), WORK, lambda: 50)


def test_rates_are_of_one_device_and_of_the_peak_of_all():
    assert WORK.rates(0.5, 4) == {"tokens_per_second_per_device": 300.0, "mfu": 0.3, "hfu": 0.4}


def test_no_peak_is_exceeded_and_mfu_keeps_its_share_of_hfu():
    assert WORK.rates(0.1, 1)["hfu"] == 1.0
    assert WORK.rates(0.1, 1)["mfu"] == 0.75


def test_shares_are_of_the_time_since_the_line_before(meter):
    time, found = meter
    time.passes(10)  # an evaluation
    with found.loading():
        time.passes(3, waiting=1)  # the processes exchange digests of their rows
    time.passes(7, waiting=3)
    row = found.row(10.0, saved=5.0)
    assert {name: row[name] for name in ("communication", "data", "saving")} == {
        "communication": 0.2, "data": 0.1, "saving": 0.25,
    }  # fmt: skip
    assert found.own.seconds == 6.0, "of ten seconds four were waited for others"
    with found.loading():
        time.passes(1)
    time.passes(3, waiting=2)
    row = found.row(4.0, saved=5.0)
    assert (row["communication"], row["data"], row["saving"], found.own.seconds) == (0.5, 0.25, 0.0, 2.0)


def test_memory_is_the_most_of_any_process_so_far(meter):
    _, found = meter
    assert found.row(1.0, 0.0)["memory"] == 50
    found.others = [OwnTime("a", 1.0, 40), OwnTime("b", 1.0, 70)]
    assert found.row(1.0, 0.0)["memory"] == 70
    found.others, found.memory = (), lambda: 20  # the system forgot
    assert found.row(1.0, 0.0)["memory"] == 50


def test_waits_that_are_not_seen_are_not_told(meter):
    time, found = meter
    found.seen = False
    time.passes(4, waiting=2)
    assert found.row(4.0, 0.0)["communication"] is None
    assert found.own.seconds is None


def test_the_slowest_process_is_the_one_with_the_most_time_of_its_own():
    every = [OwnTime("a", 2.0, None), OwnTime("a", 1.8, None), OwnTime("n7", 2.62, None)]
    assert extremes(every) == {
        "slowest": {"rank": 2, "host": "n7", "own": 1.31}, "fastest": {"rank": 1, "host": "a", "own": 0.9},
    }  # fmt: skip
    assert extremes(every[:1]) == extremes([]) == {}
    assert extremes([*every, OwnTime("b", None, None)]) == {}, "before its first update a process has none"


def test_words_say_what_is_worth_one():
    one = {"mfu": 0.4, "hfu": 0.4, "memory": 2 * 10**9, "communication": 0.0, "data": 0.004, "saving": None}
    assert words(one) == ["memory 2 GB"]
    slow, fast = {"rank": 3, "host": "n7", "own": 1.31}, {"rank": 0, "host": "n1", "own": 0.95}
    two = {**one, "hfu": 0.52, "communication": 0.123, "saving": 0.05, "slowest": slow, "fastest": fast}
    own = "own time: rank 3 on n7 1.31, rank 0 on n1 0.95 of the median's"
    assert words(two) == ["HFU 52%", own, "communication 12%", "saving 5%", "memory 2 GB"]
    assert words({}) == [], "a line of an older version"


@pytest.mark.usefixtures("counted_flops")
def test_layers_that_are_computed_again_are_executed_and_no_more_of_the_model(tiny, tmp_path):
    work = {
        how: UsageMeter.of(tiny.but(plan=tiny.plan.but(checkpointing=how)), tmp_path, HOST, Alone()).work
        for how in ("none", "selective", "full")
    }
    assert {each.model_flops for each in work.values()} == {flops_of(tiny)}
    assert work["none"].executed == work["selective"].executed == flops_of(tiny), "products are saved"
    assert flops_of(tiny) < work["full"].executed < 4 / 3 * flops_of(tiny), "the head is not computed again"
    assert work["none"].tokens == 4 * 32


@pytest.mark.parametrize(
    ("compile", "mesh", "seen"),
    [("on", {"tensor": 2}, False), ("on", {"context": 2}, False), ("on", {"shard": 2}, True), ("off", {"tensor": 2}, True)],
)
def test_waits_within_compiled_layers_are_not_seen(tiny, tmp_path, compile, mesh, seen):
    run = change_all(tiny, {"plan.compile": compile, "plan.mesh": mesh})
    assert UsageMeter.of(run, tmp_path, HOST, Alone(first=False)).seen is seen


def test_an_accelerator_is_known_by_what_its_driver_calls_it_whole(monkeypatch):
    assert all(recognised(name) is not None for name in DEVICES)
    assert recognised("NVIDIA H100 80GB HBM3").name == "h100"
    assert recognised("NVIDIA H100 PCIe") is None, "which has another peak"
    host = Host(torch.device("cuda"), {"bf16": 5e14, "fp32": 1e13})
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "NVIDIA H200")
    assert host.rated(Plan(precision="bf16")) == recognised("NVIDIA H200").peaks["bf16"]
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "another")
    assert host.rated(Plan(precision="bf16")) == 5e14
    assert Host(torch.device("cpu"), {"fp32": 1e9}).rated(Plan(precision="fp32")) == 1e9


def test_a_run_of_before_goes_on_with_lines_that_have_no_such_figures(tiny, tmp_path):
    whole, other = tmp_path / "whole", tmp_path / "other"
    train(tiny, whole, console=QUIET)
    rows = [row for row in read_metrics(whole) if row["kind"] == "train"]
    assert all({"mfu", "hfu", "memory", "communication", "data", "saving"} <= row["usage"].keys() for row in rows)
    train(tiny.but(steps=3), other, console=QUIET)
    lines = [{key: value for key, value in row.items() if key != "usage"} for row in read_metrics(other)]
    (other / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    resume(other, {"steps": 8}, console=QUIET)
    found = [row for row in read_metrics(other) if row["kind"] == "train"]
    assert ["usage" in row for row in found] == [False] * 3 + [True] * 5
    assert len(found) == len(rows)
