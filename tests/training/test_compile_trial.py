"""Whether a run is compiled, by a trial of its passes: the faster way, kept, and never slower than an eager one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from anyformer.describe import change_all
from anyformer.training import compile_trial, loop, train
from anyformer.training.compile_trial import KEPT, Times, digest, facts_of, with_faster
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import read_run
from anyformer.training.passes import OneByOne
from anyformer.training.precision import Host
from anyformer.training.run import Run
from anyformer.training.trainer import Trainer

SECONDS = {"compiled": [9.0, 0.5, 0.4, 0.6], "eager": [0.7, 0.5, 0.3, 0.8]}
"""Of the passes of a trial, the first of each apart; eager ones are faster."""


@pytest.fixture
def open_run(tiny: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose plan leaves it open whether it is compiled, on a machine where that works."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: lambda *given: function(*given))
    monkeypatch.setattr(loop, "resolve", lambda plan, machine, base, long: (plan.but(compile="on"), []))
    return change_all(tiny, {"plan.compile": "auto", "steps": 2})


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch):
    """Passes that take the seconds they are told to; which of both was made is what they are asked for."""
    made: list[str] = []

    def told(seconds: dict[str, list[float]]) -> list[str]:
        left = {name: list(every) for name, every in seconds.items()}

        def gradients_of(trainer, passes: OneByOne, batch) -> None:
            made.append("eager" if passes.summed == passes.loss.summed else "compiled")
            passes.made = True
            assert len(batch.pieces) == 1

        def seconds_of(act) -> float:
            act()
            return left[made[-1]].pop(0)

        monkeypatch.setattr(compile_trial, "gradients_of", gradients_of)
        monkeypatch.setattr(compile_trial, "seconds_of", seconds_of)
        return made

    return told


def said(run: Run, place: Path) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    train(run, place, console=console)
    return console.file.getvalue().splitlines()


def test_the_faster_way_is_taken_told_and_remembered(open_run, clocked, tmp_path):
    made = clocked(SECONDS)
    lines = said(open_run, tmp_path / "first")
    line = "a pass takes 0.4 s compiled and 0.3 s in eager mode: in eager mode (plan.compile = 'on' compiles)"
    assert line in lines
    assert made == ["eager", "compiled", *["compiled", "eager"] * 3]
    assert read_run(tmp_path / "first").plan.compile == "off"
    assert sum("compiling the step" in each for each in lines) == 1
    lines = said(open_run, tmp_path / "second")
    assert f"{line}, as measured before" in lines
    assert len(made) == 8, "nothing was tried again"
    assert not any("compiling the step" in each for each in lines)


def test_a_compiled_run_stays_so_where_that_is_faster(open_run, clocked, tmp_path):
    clocked({"compiled": [9.0, 0.2, 0.25, 0.6], "eager": SECONDS["eager"]})
    lines = said(open_run, tmp_path / "run")
    assert "a pass takes 0.2 s compiled and 0.3 s in eager mode: compiled" in lines
    assert read_run(tmp_path / "run").plan.compile == "on"
    assert sum("compiling the step" in each for each in lines) == 1, "said once, in the trial"


def test_long_passes_are_tried_once_and_not_at_all_where_minutes_are_short(open_run, clocked, tmp_path):
    made = clocked({"compiled": [60.0, 21.0], "eager": [25.0, 20.0]})
    assert "a pass takes 21 s compiled and 20 s in eager mode" in "\n".join(said(open_run, tmp_path / "run"))
    assert made == ["eager", "compiled", "compiled", "eager"]
    made.clear()
    clocked({"compiled": [], "eager": [25.0]})
    run = change_all(open_run, {"plan.compile": "on", "length": 31})
    trainer, lines = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9})), list[str]()
    assert with_faster(trainer, lines.append, left=600.0) is trainer
    assert (made, lines) == (["eager"], [])


@pytest.mark.parametrize("asked", ["on", "off"])
def test_nothing_is_tried_where_the_plan_says_it(open_run, clocked, tmp_path, monkeypatch, asked):
    monkeypatch.setattr(loop, "resolve", lambda plan, machine, base, long: (plan, []))
    made = clocked({"compiled": [], "eager": []})
    said(change_all(open_run, {"plan.compile": asked}), tmp_path / "run")
    assert not made
    assert read_run(tmp_path / "run").plan.compile == asked


def test_what_is_kept_belongs_to_a_shape_a_plan_and_a_machine(open_run, monkeypatch):
    cpu = torch.device("cpu")
    plan = open_run.plan.but(compile="on")
    run = open_run.but(plan=plan)
    others = [
        run.but(length=16), run.but(batch=8), run.but(plan=plan.but(attention="plain")),
        change_all(run, {"architecture.decoder.layer.feedforward.sublayer.width": 64}),
    ]  # fmt: skip
    keys = [digest(facts_of(each, cpu)) for each in (run, *others)]
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")  # which nobody tests with
    keys.append(digest(facts_of(run, cpu)))
    monkeypatch.undo()
    assert len(set(keys)) == len(keys)
    assert digest(facts_of(run.but(steps=77, seed=5), cpu)) == keys[0], "neither of them changes how long a pass takes"


def test_a_damaged_memory_is_none(open_run, monkeypatch, tmp_path):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path))
    for kept in (None, "fast", [1.0], [1.0, "x"], {"compiled": 1.0}):
        KEPT.write("key", kept)
        assert compile_trial._kept("key") is None
    KEPT.write("key", [1.0, 2.0])
    assert compile_trial._kept("key") == Times(1.0, 2.0)
