"""Killed at random moments, and at every stage of a save, a run ends with the bits of the run that was left alone."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
from benchmarks import group_kills, kills
from rich.console import Console

from anyformer import checkpoint
from anyformer.checkpoint import manifest, model
from anyformer.training import train

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life of a run is a fork of this process")
STAGES = {
    "before the first file": (model, "save_file", 2),
    "before the optimiser's state": (model, "save_file", 5),
    "before the manifest": (manifest, "_write_manifest", 3),
    "before the sync": (manifest, "_sync", 8),
    "before it has its name": (type(kills.RESULT), "rename", 2),
    "before the last loss is noted": (type(kills.RESULT), "replace", 4),
    "before older ones are deleted": (checkpoint, "prune", 3),
    "before the loss is noted": (checkpoint, "add_facts", 1),
}
"""Of which function at which call the process is killed."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run left alone, in the process that lives are forked from."""
    place = tmp_path_factory.mktemp("alone")
    run = kills.run_of("dense", place, steps=12, every=2)
    train(run, place / "run", console=Console(quiet=True))
    return run, kills.outcome(place / "run")


@pytest.mark.parametrize("stage", STAGES)
def test_killed_at_every_stage_of_a_save(alone, tmp_path, monkeypatch, stage):
    run, expected = alone
    owner, name, number = STAGES[stage]
    real, calls = getattr(owner, name), []

    def last(*given, **more):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, last)
        with pytest.raises(AssertionError, match="status 9"):
            kills.live(run, tmp_path / "run")
    assert kills.live(run, tmp_path / "run")
    assert kills.outcome(tmp_path / "run") == expected


TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.scandir", "os.listdir", "shutil.rmtree"}
"""Python's audit events of touching files and directories."""


def killed_at(touch: int | None, run, directory, counted) -> bool:
    """Fork a life of the run, killed at this touch of a file of its directory, the first being 1; gives whether it was.

    Without a touch it lives, and writes into `counted` how many it had.
    """
    process = os.fork()
    if not process:
        seen = []

        def hook(event, given):
            if event in TOUCHES and (isinstance(given[0], int) or str(directory) in str(given[0])):
                seen.append(event)
                if len(seen) == touch:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        train(run, directory, console=Console(quiet=True))
        counted.write_text(str(len(seen)))
        os._exit(0)
    return os.waitpid(process, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("among", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_where_it_touches_files(alone, tmp_path, among):
    """Every 25th touch, from the last one back; slowly, all of them."""
    run = kills.run_of("dense", tmp_path, steps=2, every=1)
    assert not killed_at(None, run, tmp_path / "alone", tmp_path / "count")
    expected, touches = kills.outcome(tmp_path / "alone"), int((tmp_path / "count").read_text())
    for touch in range(touches, 0, -among):
        directory = tmp_path / f"killed-{touch}"
        killed_at(touch, run, directory, tmp_path / "ignored")
        assert kills.live(run, directory)
        assert kills.outcome(directory) == expected, f"killed at touch {touch} of {touches}"


def test_killed_at_random_moments(alone, tmp_path):
    found = kills.kill("dense", tmp_path, steps=30, every=2, kills=3, during_a_save=0, seed=1)
    assert found.equal
    assert found.kills == 3


def test_the_committed_result_is_that_every_run_ended_alike():
    found = json.loads(kills.RESULT.read_text())["runs"]
    assert found.keys() == kills.RUNS.keys()
    for name, (steps, least, saves) in kills.RUNS.items():
        assert found[name]["equal"]
        assert found[name]["steps"] == steps
        assert found[name]["kills"] >= least
        assert found[name]["during_a_save"] >= saves


@pytest.mark.slow
def test_four_processes_that_are_killed_one_by_one(tmp_path):
    kills.prepare_to_fork(tmp_path)
    place = tmp_path / "together"
    place.mkdir()
    found = group_kills.kill("dense", place, steps=12, kills=4, seed=0)
    assert (found.kills, found.equal) == (4, True)


def test_the_committed_result_is_that_groups_of_processes_ended_alike():
    found = json.loads(group_kills.RESULT.read_text())
    assert (found["processes"], found["equal"]) == (4, True)
    assert found["kills"] >= 50
    assert found["verified"] > 0
    assert sum(found["doing"].values()) == 4 * (found["kills"] - found["starting"])
    assert all(found["doing"][what] for what in group_kills.DOING), "kills met every stage of a save"


@pytest.mark.slow
@pytest.mark.parametrize("name", kills.MODELS)
def test_every_kind_of_model_survives_many_kills(tmp_path, name):
    assert kills.kill(name, tmp_path, steps=60, every=2, kills=10, during_a_save=2, seed=2).equal
