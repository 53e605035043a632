"""What a study decides once for its directory, what it has room for, and what it shows while it runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from anyformer.costs.figures import in_time
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.plan import Plan
from anyformer.studies import Arm, resolve_arms, running
from anyformer.studies.live import View
from anyformer.studies.outcome import TrialOutcome
from anyformer.studies.running import decided_as, prepared, room_of
from anyformer.studies.trials import stage
from anyformer.training.precision import Host


def fastest(monkeypatch, name):
    peaks = {"fp32": 1.0, "bf16": 1.0, name: 2.0}
    monkeypatch.setattr(running, "measured_host", lambda device, plan: Host(torch.device("cpu"), peaks))


def test_what_is_measured_is_measured_once_for_the_directory(study, tmp_path, monkeypatch):
    """A busier moment must not change the precision of the trials that are left."""
    auto = study.but(base=study.base.but(plan=Plan()))
    fastest(monkeypatch, "bf16")
    first = prepared(auto, tmp_path / "out")
    fastest(monkeypatch, "fp32")
    assert prepared(auto, tmp_path / "out") == first
    assert first.base.plan.precision.kind == "bf16"
    assert first.base.plan.compile == "off"
    named = auto.but(base=auto.base.but(plan=Plan(precision="fp32")))
    assert prepared(named, tmp_path / "out").base.plan.precision.kind == "fp32"


def test_arms_with_runs_of_their_own_are_computed_alike(base):
    plan = decided_as(Plan(), base.plan)
    assert (plan.precision.kind, plan.compile) == ("fp32", "off")
    assert decided_as(Plan(precision="bf16"), base.plan).precision.kind == "bf16"


def test_what_one_trial_needs_must_be_there(study, monkeypatch):
    arms = resolve_arms(study)
    assert room_of(study, arms, jobs=3).slots == 3
    monkeypatch.setattr(running, "free_memory", lambda device: 10**6)
    with pytest.raises(NotEnoughMemoryError, match=r"arms\.base: a trial needs 0\.4 GB, and 0\.0 GB are free"):
        room_of(study, arms)


def test_what_is_shown_on_the_way(study, tmp_path):
    found = stage(study, resolve_arms(study), "cpu", {})
    first, second, *_ = found.final
    outcome = TrialOutcome("finished", numbers={"loss": 2.5}, updates=6, seconds=12.0)
    place = tmp_path / "trials" / second.name
    place.mkdir(parents=True)
    rows = [{"kind": "train", "step": step, "loss": 4.0 - step, "seconds": 4.0} for step in (1, 2)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    view = View(tmp_path, 2, "loss")
    assert list(view.ended(found, {}, {})) == []
    running = {second.key: second}
    assert list(view.ended(found, {first.key: outcome}, running)) == [f"1 of 9  {first.name}  loss 2.5000"]
    assert list(view.ended(found, {first.key: outcome}, running)) == []
    console = Console(file=io.StringIO(), width=100)
    console.print(view.table(found, {first.key: outcome}, running))
    shown = console.file.getvalue()
    # 2 s an update of the base, 4 s of the second arm, 3 s of the third: (12 + 12 + 16 + 24 + 24 + 18 * 3) s on two slots.
    assert "1 of 9 trials; about 71 s left" in shown
    assert f"{second.name}  " in shown
    assert "2/6" in shown
    assert "2.000" in shown
    diverged = replace(outcome, status="diverged", reason="at update 3\nand more")
    assert list(view.ended(found, {second.key: diverged}, {})) == [f"2 of 9  {second.name}  diverged: at update 3"]


@pytest.mark.parametrize(("seconds", "said"), [(45, "45 s"), (600, "10 min"), (12600, "3.5 h")])
def test_times_in_words(seconds, said):
    assert in_time(seconds) == said


def test_an_arm_may_be_a_run(study):
    other = study.base.but(batch=2, steps=99)
    found = resolve_arms(study.but(arms={"other": Arm(run=other)}))
    assert (found[1].run.steps, found[1].run.batch) == (12, 2)
