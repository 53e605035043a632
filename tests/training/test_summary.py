"""What a run's summary says: predictions that hold, and measurements that are those of the run."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import sys
from dataclasses import replace
from functools import partial
from statistics import median

import pytest
import torch
from rich.console import Console

from anyformer.costs import cost, hardware_of, step_time
from anyformer.describe import change_all
from anyformer.operations import Shape
from anyformer.training import allocator, resume, train
from anyformer.training import summary as summary_module
from anyformer.training.allocator import keep_freed_memory
from anyformer.training.display import COMPILING, Display
from anyformer.training.journal import read_metrics, read_summary
from anyformer.training.measured_hardware import known, remember, remembered
from anyformer.training.memory_meter import MemoryMeter, state_bytes
from anyformer.training.precision import Host, thread_hint
from anyformer.training.priced import step_of
from anyformer.training.summary import Prediction, summarise

QUIET = Console(quiet=True)
CPU = torch.device("cpu")


SLOW = replace(hardware_of("h100"), name="here", peaks={"fp32": 1e8, "bf16": 1e8}, bandwidth=1e7)
"""So slow that computing, not calling, takes the time of a tiny model."""


def wide(tiny, **changes):
    """Wide enough that what is counted in single numbers does not show."""
    return change_all(tiny, {"architecture.width": 64, "decoder.layer.feedforward.width": 128, "length": 64, **changes})


@pytest.mark.usefixtures("counted_flops", "counted_memory")
@pytest.mark.parametrize("accumulation", [1, 2])
def test_predictions_stand_beside_measurements(tiny, tmp_path, accumulation):
    trained = train(wide(tiny, accumulation=accumulation), tmp_path / "run", console=QUIET)
    found = trained.summary
    forward = cost(wide(tiny).architecture, batch=4, length=64, mode="prefill").flops.forward.dense
    assert found.flops.predicted == found.flops.measured == 3 * forward
    assert found.flops_per_token == found.flops.predicted / (4 * 64)
    assert found.memory.predicted == pytest.approx(found.memory.measured, rel=0.05)
    seconds = [row["seconds"] for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    assert found.tokens_per_second.measured == pytest.approx(4 * 64 / median(seconds))
    assert found.tokens_per_second.predicted is None
    assert "calibrated" in found.notes[0]
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == json.loads(json.dumps(found.data()))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not say how large a process was at most")
@pytest.mark.usefixtures("counted_memory")
def test_the_process_holds_at_least_its_tensors(tiny, tmp_path):
    run = wide(tiny, **{"batch": 64, "length": 128, "steps": 4, "evaluation.every": 4})
    found = train(run, tmp_path / "run", console=QUIET).summary
    # What lay free in the process before is taken first, unseen.
    assert found.resident > 0.5 * found.memory.measured


def test_a_remembered_calibration_predicts_the_speed(tiny, tmp_path):
    here = SLOW
    remember(here, CPU)
    assert remembered(CPU) == here
    found = train(wide(tiny), tmp_path / "run", console=QUIET).summary
    run = wide(tiny)
    expected = step_time(run.architecture, Shape(batch=4, length=64), run.plan, here, "train").tokens_per_second
    assert found.tokens_per_second.predicted == pytest.approx(expected)
    assert found.mfu.predicted / found.mfu.measured == pytest.approx(expected / found.tokens_per_second.measured)
    assert not found.notes


def test_a_long_run_calibrates_and_remembers(tiny, tmp_path, monkeypatch):
    asked = []

    def measured(device):
        asked.append(device)
        return SLOW

    monkeypatch.setattr("anyformer.training.measured_hardware.calibrated", measured)
    monkeypatch.setattr(summary_module, "LONG_SECONDS", 0.0)
    assert train(wide(tiny), tmp_path / "run", console=QUIET).summary.tokens_per_second.predicted is not None
    assert known(CPU) == SLOW
    assert asked == ["cpu"]


def test_another_machine_s_calibration_is_not_taken(tiny, monkeypatch):
    remember(hardware_of("h100"), CPU)
    assert remembered(CPU) is not None
    monkeypatch.setattr("torch.get_num_threads", lambda: 999)
    assert remembered(CPU) is None


def test_a_damaged_calibration_is_none(tiny, tmp_path):
    remember(hardware_of("h100"), CPU)
    (path,) = (tmp_path / "cache").glob("calibration-*.json")
    path.write_text('{"measured_on": 3')
    assert remembered(CPU) is None


@pytest.mark.parametrize("content", [None, b'{"loss": 3', b"[]", b'"\xff"', b"[" * 100_000], ids=lambda text: str(text)[:12])
def test_a_damaged_summary_is_none(tmp_path, content):
    if content is not None:
        (tmp_path / "summary.json").write_bytes(content)
    assert read_summary(tmp_path) == {}


def test_a_run_of_one_update_and_a_resumed_one_have_a_summary(tiny, tmp_path):
    assert train(change_all(tiny, {"steps": 1}), tmp_path / "one", console=QUIET).summary.memory.measured is None
    train(tiny, tmp_path / "run", console=QUIET)
    assert resume(tmp_path / "run", {"steps": 10}, console=QUIET).summary.tokens_per_second.measured > 0


def test_a_model_too_small_to_be_predicted_is_told_so(tiny, tmp_path):
    remember(hardware_of("h100"), CPU)
    found = train(tiny, tmp_path / "run", console=QUIET).summary
    assert found.tokens_per_second.predicted is None
    assert "so small that a kernel takes" in found.notes[0]


def test_the_share_of_the_peak_is_never_above_all_of_it(tiny):
    rows = [{"kind": "train", "seconds": 0.1}]
    found = summarise(tiny, step_of(tiny), Host(CPU, {"fp32": 1.0, "bf16": 1.0}), rows, MemoryMeter(CPU))
    assert found.mfu.measured == 1.0
    console = Console(record=True, width=200, file=io.StringIO())
    with Display(console, steps=1, peak=1.0, flops_per_token=1000) as display:
        display.step(1, 2.0, 100, 0.1)
    assert " 100% of peak" in console.export_text()


def test_a_run_whose_speed_is_not_measured_reaches_no_more_than_predicted(tiny):
    remember(SLOW, CPU)
    found = summarise(wide(tiny), step_of(wide(tiny)), Host(CPU, {"fp32": 1.0}), [], MemoryMeter(CPU))
    assert found.mfu.measured is None
    assert found.mfu.predicted == found.flops_per_token * found.tokens_per_second.predicted, "of a peak of 1 FLOP/s"


def test_what_is_not_known_yet_is_not_shown():
    console = Console(record=True, width=200, file=io.StringIO())
    with Display(console, steps=9, peak=1e9, flops_per_token=1, plain_every=-1) as display:
        display.compiling()
        for step in range(1, 6):
            display.step(step, 2.0, 100, 30.0 if step == 1 else 0.1)
    said = console.export_text().splitlines()
    assert said[0] == COMPILING
    assert "--no-compile" in COMPILING, "how to do without"
    assert said[1] == "step 1/9  loss 2.000  validation -", "the first update compiles"
    assert said[2].endswith("  1,000 tokens/s"), "and no share of the peak, which is tiny"
    assert said[4].endswith("  1,000 tokens/s  1 s left") or said[4].endswith("  0 s left")


def test_on_a_terminal_one_line_says_what_is_done():
    def last(act, width: int = 120) -> str:
        console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
        with Display(console, steps=9, peak=1e9, flops_per_token=120, first=3) as display:
            act(display)
        return [line for line in console.file.getvalue().splitlines() if "/9" in line][-1]

    compiling, updated = last(lambda display: display.compiling()), last(lambda display: display.step(4, 2.0, 100, 0.1))
    assert "step 3/9" in compiling
    assert "compiling" in compiling
    assert "step 4/9" in updated
    assert "loss 2.000  validation -" in updated
    narrow = last(lambda display: display.step(9, 12.0, 10_000_000, 10.0), width=80)
    assert narrow.endswith("loss 12.000  validation -  1,000,000 tokens/s  12% of peak 0:00:00"), "only the bar gives way"


def test_a_tiny_model_is_told_of_threads(monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    assert "OMP_NUM_THREADS=1" in thread_hint(7_776, CPU)[0]
    assert thread_hint(99_999, CPU) != []
    assert thread_hint(100_000, CPU) == []
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    assert thread_hint(7_776, CPU) == []


def test_words(tiny, tmp_path):
    summary = train(wide(tiny), tmp_path / "run", console=QUIET).summary
    lines = summary.lines()
    assert lines[0].split() == ["predicted", "measured", "difference"]
    assert [line.split("  ")[0].strip() for line in lines[1:4]] == [
        "tokens per second",
        "memory at the peak",
        "FLOPs per update",
    ]
    assert lines[3].endswith(" 0")
    assert lines.count(str(summary.waiting)) == 1
    assert str(summary.waiting).startswith("waiting for 4 checkpoints: "), "of updates 3, 6, 8, and 4 as the best"
    assert len(replace(summary, waiting=None).lines()) == len(lines) - 1
    assert Prediction(110, 100).difference == pytest.approx(0.1)
    assert Prediction(None, 100).difference is None


@pytest.mark.usefixtures("counted_memory")
def test_only_the_second_update_s_tensors_are_counted():
    model = torch.nn.Linear(1000, 1000)
    optimiser, meter = torch.optim.AdamW(model.parameters()), MemoryMeter(CPU)
    for update in range(1, 4):
        with meter.watching(update, partial(state_bytes, model, optimiser)):
            kept = torch.ones(update * 1_000_000)
    assert kept.nbytes == 12_000_000
    # The tensor of the first update goes after that of the second is there.
    assert meter.tensors == 4 * 1_001_000 + 8_000_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no such settings")
def test_glibc_takes_every_setting_that_keeps_freed_memory():
    assert keep_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no such settings")
def test_memory_is_asked_of_the_system_seldom_and_never_given_back():
    """Where the heap ends in a process of its own: 100 MiB more in blocks of 1 MiB, and once these are free."""
    code = f"""
import ctypes, runpy
libc = ctypes.CDLL(None)
for name, given in (("malloc", ctypes.c_size_t), ("free", ctypes.c_void_p), ("sbrk", ctypes.c_ssize_t)):
    getattr(libc, name).argtypes, getattr(libc, name).restype = [given], ctypes.c_void_p
assert runpy.run_path({allocator.__file__!r})["keep_freed_memory"]()
blocks, ends = [], []
for _ in range(100):
    blocks.append(libc.malloc(1 << 20))
    ends.append(libc.sbrk(0))
for block in blocks:
    libc.free(block)
print(len({{*ends}}), libc.sbrk(0) == ends[-1])
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.split() == ["1", "True"]


@pytest.mark.parametrize("lacking", ["linux", "library", "function"])
def test_where_freed_memory_cannot_be_kept_that_is_said(monkeypatch, lacking):
    def library(name):
        if lacking == "library":
            raise OSError("no library")
        assert lacking == "function", "another system's is not asked"
        return object()

    monkeypatch.setattr("sys.platform", "darwin" if lacking == "linux" else "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", library)
    assert not keep_freed_memory()


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_free_memory_is_given_back_whole_or_left_where_that_cannot_be_asked(monkeypatch, error):
    left = []

    class Library:
        def __init__(self, name):
            self.malloc_trim = left.append

    monkeypatch.setattr(allocator.ctypes, "CDLL", Library)
    allocator.give_back()
    assert left == [0], "bytes that stay"

    def missing(name):
        raise error

    monkeypatch.setattr(allocator.ctypes, "CDLL", missing)
    allocator.give_back()


@pytest.mark.parametrize(("predicted", "measured", "factor"), [(300.0, 100.0, "3"), (199.0, 100.0, None), (50.0, 100.0, None)])
def test_a_speed_far_below_the_prediction_is_explained(predicted, measured, factor):
    """Tiny runs were up to 66 times slower than predicted, and nothing said why."""
    said = summary_module.slower(Prediction(predicted, measured))
    assert [line.split(" times")[0] for line in said] == ([] if factor is None else [factor])
    assert summary_module.slower(Prediction(None, measured)) == summary_module.slower(Prediction(predicted, None)) == []


def test_the_explanation_stands_below_the_table(tiny, tmp_path, monkeypatch):
    remember(replace(SLOW, peaks={"fp32": 1e13, "bf16": 1e13}, bandwidth=1e12), CPU)
    monkeypatch.setattr(summary_module, "OVERHEAD", 0.0)
    found = train(wide(tiny), tmp_path / "run", console=QUIET).summary
    assert found.tokens_per_second.difference > summary_module.FAR
    assert any("times slower than predicted" in line for line in found.lines())
