"""Trials side by side: within cores and memory, never twice, one's failure no other's; processes that are no models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from anyformer.studies import ArmTuning, resolve_arms
from anyformer.studies.outcome import OUTCOME, Ended, TrialOutcome
from anyformer.studies.process import holding
from anyformer.studies.runner import TRIALS, Room, Runner, place_of
from anyformer.studies.trials import stage, tuned_arm, widen
from anyformer.training.stop import Stopped

LOSSES = {"base": 3.0, "one_head": 3.2, "gelu": 2.9}
STAND_IN = """
import json, os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
facts = json.loads((place / "trial.json").read_text())
def put(name, text):
    partial = place / f".{name}.{os.getpid()}"
    partial.write_text(text)
    partial.replace(place / name)
how = json.loads(os.environ.get("STAND_IN", "{}")).get(facts["arm"], "")
with open(place.parent / "began", "a") as file:
    file.write(place.name + "\\n")
if how == "hang":
    time.sleep(60)
if how == "die":
    print("no such luck")
    sys.exit(3)
if how == "killed":
    os.kill(os.getpid(), 9)
value = facts["value"] or 0.003
loss = dict(base=3.0, one_head=3.2, gelu=2.9)[facts["arm"]] + 0.01 * facts["seed"] + abs(value - 0.003)
row = dict(step=1, loss=loss, tokens=32)
rows = [dict(kind="train", gradient_norm=1.0, seconds=0.1, data="d", **row), dict(kind="validation", last=True, **row)]
put("metrics.jsonl", "".join(json.dumps(each) + "\\n" for each in rows))
status = dict(diverge="diverged", fail="failed").get(how, "finished")
put("outcome.json", json.dumps(dict(key=facts["key"], status=status, reason="bad luck")))
"""
"""Writes each file whole or not at all, as a training does: another runner may read it meanwhile."""


def stand_in(directory, threads, output):
    """A process in place of a training: a script that imports no torch."""
    return subprocess.Popen([sys.executable, "-S", "-c", STAND_IN, str(directory)], stdout=output, stderr=output)


def room(slots=2):
    return Room(slots, 10**12, lambda trial: 10**9)


def runner(study, directory, **more):
    due = partial(stage, study, resolve_arms(study), "cpu")
    return Runner(directory, due, more.pop("room", room()), launch=stand_in, pause=0.02, **more)


@pytest.fixture
def behave(monkeypatch):
    return lambda **how: monkeypatch.setenv("STAND_IN", json.dumps(how))


def began(directory):
    return (directory / TRIALS / "began").read_text().split()


def test_every_trial_runs_once_and_never_again(study, tmp_path):
    found, outcomes = runner(study, tmp_path).go()
    assert len(found.final) == 9
    assert {outcome.status for outcome in outcomes.values()} == {"finished"}
    assert sorted(began(tmp_path)) == sorted(trial.name for trial in found.final)
    again, same = runner(study, tmp_path).go()
    assert (again, same) == (found, outcomes)
    assert len(began(tmp_path)) == 9


def test_a_model_is_asked_at_lengths_that_are_added_later(study, tmp_path):
    """And is not trained for it again: only what is compared, none of the trials of tuning, is asked."""
    runner(study, tmp_path).go()
    asked = [place / "lengths.json" for place in (tmp_path / TRIALS).iterdir() if place.is_dir()]
    asked[0].write_text('{"64": {"loss": 1.0}}')
    longer = study.but(lengths=(64,), tuning=ArmTuning(values=(3e-3, 6e-3), widen=0))
    due = runner(longer, tmp_path)
    wanted = {trial.name for trial in due.stage({}).trials}
    assert len(wanted) == 6, "tuning comes first"
    found = runner(study.but(lengths=(64,)), tmp_path)
    assert {place_of(tmp_path, trial) for trial in found._due()} == {each.parent for each in asked[1:]}


def test_a_seed_more_runs_that_seed_alone(study, tmp_path):
    runner(study, tmp_path).go()
    found, _ = runner(study.but(seeds=(1, 2, 3, 4)), tmp_path).go()
    assert len(found.final) == 12
    assert len(began(tmp_path)) == 12


def test_an_arm_of_another_name_is_not_run_again(study, tmp_path):
    runner(study, tmp_path).go()
    found, outcomes = runner(study.but(arms={"narrow": study.arms["one_head"]}, base_name="plain"), tmp_path).go()
    assert [trial.arm for trial in found.final] == ["plain", "narrow"] * 3
    assert len(outcomes) == 6
    assert len(began(tmp_path)) == 9


def test_threads_and_precision_are_of_the_key(study, tmp_path):
    runner(study, tmp_path).go()
    runner(study.but(threads=2), tmp_path).go()
    assert len(began(tmp_path)) == 18
    runner(study.but(base=study.base.but(plan=study.base.plan.but(precision="bf16"))), tmp_path).go()
    assert len(began(tmp_path)) == 27


@pytest.mark.parametrize(("how", "reason"), [("die", "code 3: no such luck"), ("killed", "SIGKILL"), ("fail", "bad luck")])
def test_a_failure_costs_its_own_trials_and_is_tried_again(study, tmp_path, behave, how, reason):
    behave(gelu=how)
    found, outcomes = runner(study, tmp_path).go()
    by_arm = {trial.arm: outcomes[trial.key] for trial in found.final}
    assert {arm: outcome.status for arm, outcome in by_arm.items()} == {
        "base": "finished", "one_head": "finished", "gelu": "failed",
    }  # fmt: skip
    assert reason in by_arm["gelu"].reason
    behave()
    _, outcomes = runner(study, tmp_path).go()
    assert {outcome.status for outcome in outcomes.values()} == {"finished"}
    assert len(began(tmp_path)) == 12


def test_a_diverged_trial_is_a_result(study, tmp_path, behave):
    behave(gelu="diverge")
    runner(study, tmp_path).go()
    _, outcomes = runner(study, tmp_path).go()
    assert sum(outcome.status == "diverged" for outcome in outcomes.values()) == 3
    assert len(began(tmp_path)) == 9


def test_no_more_run_than_there_is_room_for(study, tmp_path):
    seen = []

    def watch(stage, outcomes, running):
        seen.append(len(running))

    runner(study, tmp_path, room=room(slots=3), watcher=watch).go()
    assert max(seen) <= 3
    seen.clear()
    small = Room(8, 5 * 10**8, lambda trial: 10**9)
    runner(study, tmp_path / "b", room=small, watcher=watch).go()
    assert set(seen) == {0, 1}  # one may always run


def test_what_another_process_trains_is_waited_for(study, tmp_path):
    """A trial that is locked is not started; its outcome counts once the other process has written it."""
    first = runner(study, tmp_path)
    trial = first.stage({}).final[0]
    (tmp_path / TRIALS).mkdir()
    place = first.place(trial)
    place.mkdir()
    with holding(place) as mine:
        assert mine
        with holding(place) as second:
            assert not second
        worker = threading.Thread(target=first.go)
        worker.start()
        deadline = time.monotonic() + 60
        while len(list((tmp_path / TRIALS).glob(f"*/{OUTCOME}"))) < 8 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert trial.name not in began(tmp_path)
        (place / "metrics.jsonl").write_text(
            "".join(
                json.dumps({"kind": kind, "step": 1, "loss": 1.5, "tokens": 32, "seconds": 1.0, "gradient_norm": 1.0, **more})
                + "\n"
                for kind, more in (("train", {"data": "d"}), ("validation", {"last": True}))
            )
        )
        Ended(trial.key, "finished").write(place)
    worker.join(60)
    assert not worker.is_alive()
    assert first.outcomes[trial.key].numbers["loss"] == 1.5
    assert len(began(tmp_path)) == 8


def test_two_runners_on_one_study_do_not_disturb_each_other(study, tmp_path):
    both = [runner(study, tmp_path) for _ in range(2)]
    workers = [threading.Thread(target=each.go) for each in both]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert both[0].outcomes == both[1].outcomes
    assert len(both[0].outcomes) == 9


def test_ctrl_c_ends_every_trial(study, tmp_path, behave):
    behave(base="hang", one_head="hang")
    running = []

    def watch(stage, outcomes, now):
        running[:] = now
        if len(now) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    stopped = runner(study, tmp_path, watcher=watch)
    with pytest.raises(Stopped, match="the same command goes on") as caught:
        stopped.go()
    assert caught.value.exit_code == 130
    assert all(process.poll() is not None for _, process in stopped._processes.values())


def test_tuning_chooses_and_widens_at_the_edge(study, tmp_path):
    """The stand-in is best at 0.003: in the middle of one grid, at the upper end of the other."""
    inside, _ = runner(study.but(tuning=ArmTuning(values=(1e-3, 3e-3, 9e-3))), tmp_path).go()
    assert {name: (found.best, found.edge, len(found.tried)) for name, found in inside.tuned.items()} == dict.fromkeys(
        LOSSES, (0.003, False, 3)
    )
    assert {trial.value for trial in inside.final} == {3e-3}
    assert all(trial.run.optimiser.learning_rate == trial.value for trial in inside.trials)
    assert {trial.run.seed for trial in inside.tuning} == {0}
    edge, _ = runner(study.but(tuning=ArmTuning(values=(1e-3, 3e-3))), tmp_path).go()
    assert all(
        found.best == 3e-3 and not found.edge and list(found.tried) == [1e-3, 3e-3, 9e-3] for found in edge.tuned.values()
    )
    flagged, _ = runner(study.but(tuning=ArmTuning(values=(1e-3, 3e-3), widen=0)), tmp_path).go()
    assert all(found.edge for found in flagged.tuned.values())


def test_the_mean_of_the_tuning_seeds_decides(study):
    """A value that is best with one seed and goes astray with another is not chosen; a failed trial hides its value."""
    by = study.but(tuning=ArmTuning(path="schedule.warmup", values=(1, 2, 3), seeds=(7, 8)))
    trials = stage(by, resolve_arms(study)[:1], "cpu", {}).tuning
    assert sorted((trial.value, trial.run.seed) for trial in trials) == [(1, 7), (1, 8), (2, 7), (2, 8), (3, 7), (3, 8)]
    losses = {(1, 7): 1.0, (1, 8): 4.0, (2, 7): 2.0, (2, 8): 2.5, (3, 7): 0.0, (3, 8): None}
    outcomes = {
        trial.key: TrialOutcome("failed" if loss is None else "finished", numbers={} if loss is None else {"loss": loss})
        for trial in trials
        for loss in [losses[trial.value, trial.run.seed]]
    }
    found = tuned_arm(by, (1, 2, 3), trials, outcomes)
    assert found.best == 2
    assert found.tried == {1: 2.5, 2: 2.25, 3: None}


def test_an_arm_that_diverges_everywhere_has_no_final_trials(study, tmp_path, behave):
    behave(gelu="diverge")
    found, _ = runner(study.but(tuning=ArmTuning(values=(1e-3, 3e-3, 9e-3))), tmp_path).go()
    assert found.tuned["gelu"].best is None
    assert {trial.arm for trial in found.final} == {"base", "one_head"}


def test_grids_grow_by_their_own_ratio():
    assert widen((1e-3, 2e-3, 4e-3), 1) == (1e-3, 2e-3, 4e-3, 8e-3)
    assert widen((1e-3, 2e-3, 4e-3), 0) == (5e-4, 1e-3, 2e-3, 4e-3)
    assert widen((10, 20), 1) == (10, 20, 40)
    assert widen((1, 2), 0) == (1, 2)  # there is no whole number below 1


def test_more_may_be_better(study):
    by = study.but(metric="accuracy", better="higher", tuning=ArmTuning(values=(1, 2, 3)))
    arms = resolve_arms(study)[:1]
    trials = list(stage(by.but(tuning=ArmTuning(path="schedule.warmup", values=(1, 2, 3))), arms, "cpu", {}).tuning)
    outcomes = {trial.key: TrialOutcome("finished", numbers={"accuracy": trial.value / 10}) for trial in trials}
    assert tuned_arm(by, (1, 2, 3), trials, outcomes).best == 3
