"""`train --verify-resume`: the proof that a killed run goes on to the same bits, and what it says where it does not."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import UserError, change_all, to_toml
from anyformer.parts.call.noise import Noise
from anyformer.training import loop, resume, train, trainee, verification
from anyformer.training import step as step_module
from anyformer.training import trainer as trainer_module
from anyformer.training.precision import Host
from anyformer.training.step import Updates
from anyformer.training.verification import compare, verify_resume

QUIET = Console(quiet=True)
REAL_FINISH, REAL_KILL = verification.finish, verification.killed_after


class Killed(BaseException):
    """What ends a run here in place of a signal that nobody can catch."""


@pytest.fixture
def here(monkeypatch):
    """The processes of the proof, run in this one: it is much faster, and mistakes can be put in."""

    def finish(*words):
        if words[0] == "--resume":
            resume(words[1], console=QUIET)
        else:
            train(words[0], words[2], console=QUIET)

    def killed_after(count, directory, *words):
        real = Updates.update

        def update(self, batch, *more):
            if batch.step == count:
                raise Killed
            return real(self, batch, *more)

        with monkeypatch.context() as patch:
            patch.setattr(Updates, "update", update)
            with pytest.raises(Killed):
                train(words[0], directory, console=QUIET)
        return count

    machine = Host(torch.device("cpu"), {"fp32": 1e9, "bf16": 1e9})
    for each in (loop, verification):
        monkeypatch.setattr(each, "measured_host", lambda device, plan: machine)
    monkeypatch.setattr(verification, "finish", finish)
    monkeypatch.setattr(verification, "killed_after", killed_after)
    return finish


@pytest.mark.slow  # docs/checkpoints.md runs the command in each run of the tests
def test_a_process_that_is_killed_goes_on_to_the_same_bits(tiny, here, monkeypatch):
    """A process, and a signal that nobody can catch: here nothing but the uninterrupted run is stood in for."""
    monkeypatch.setattr(verification, "killed_after", REAL_KILL)
    monkeypatch.setattr(verification, "finish", lambda *words: (REAL_FINISH if words[0] == "--resume" else here)(*words))
    said = []
    verified = verify_resume(tiny, said.append)
    assert verified.same
    last = f"resuming after update {verified.saved}"
    assert said == [f"{verified.steps} updates without a stop", "the same, killed after update 3", last]
    assert 2 <= verified.saved <= verified.killed
    assert [each.what for each in verified.compared] == ["order of data", "losses", "evaluations", "weights", "optimiser"]
    assert len({each.digest for each in verified.compared}) == 5
    assert "the same bits" in verified.lines()[-1]


def wrong_noise(monkeypatch):
    real = Noise.at
    monkeypatch.setattr(step_module.Noise, "at", lambda seed, step, rows: real(seed + 1, step, rows))


def wrong_data(monkeypatch):
    real = trainer_module.training_feed
    monkeypatch.setattr(trainer_module, "training_feed", lambda *given: dataclasses.replace(real(*given), seed=99))


def wrong_moments(monkeypatch):
    real = trainee.load_state_tensors

    def halved(optimiser, model, tensors):
        real(optimiser, model, {key: value / 2 if "exp_avg" in key else value for key, value in tensors.items()})

    monkeypatch.setattr(trainee, "load_state_tensors", halved)


AFTER = {"losses", "evaluations", "weights", "optimiser"}


@pytest.mark.parametrize(
    ("mistake", "differ", "says"),
    [
        (wrong_noise, AFTER, "update 3, after the checkpoint of update 2, differs"),
        (wrong_data, {"order of data", *AFTER}, "from update 3 on they see other examples"),
        (wrong_moments, AFTER, "update 4, after the checkpoint of update 2, differs"),
    ],
)
def test_what_is_not_the_same_after_a_resume_is_named(tiny, here, monkeypatch, mistake, differ, says):
    def finish(*words):
        with monkeypatch.context() as patch:
            if words[0] == "--resume":
                mistake(patch)
            here(*words)

    monkeypatch.setattr(verification, "finish", finish)
    verified = verify_resume(tiny)
    assert {each.what for each in verified.compared if each.difference} == differ
    assert says in verified.lines()[-1]
    words = {each.what: each.difference for each in verified.compared}
    assert "without a stop" in words["losses"]
    assert "tensors differ, the first is decoder." in words["weights"]


def test_processes_that_never_compute_the_same_are_told_from_a_resume(tiny, here, monkeypatch):
    def finish(*words):
        with monkeypatch.context() as patch:
            if words[0] != "--resume":
                wrong_noise(patch)
            here(*words)

    monkeypatch.setattr(verification, "finish", finish)
    assert "update 1 differs, before the checkpoint of update 2" in verify_resume(tiny).lines()[-1]


def test_one_bit_of_one_tensor_is_seen(tiny, tmp_path):
    for name in ("one", "two"):
        train(verification.shortened(tiny, 3), tmp_path / name, console=QUIET)
    assert not any(each.difference for each in compare(tmp_path / "one", tmp_path / "two"))
    path = checkpoint.directory_of(tmp_path / "two", 3) / "optimiser.safetensors"
    bits = bytearray(path.read_bytes())
    bits[-1] ^= 1
    path.write_bytes(bytes(bits))
    found = {each.what: each.difference for each in compare(tmp_path / "one", tmp_path / "two")}
    assert [what for what, difference in found.items() if difference] == ["optimiser"]
    assert "1 of " in found["optimiser"]
    path.unlink()
    assert compare(tmp_path / "one", tmp_path / "two")[-1].difference == "is in one of the last checkpoints alone"
    assert verification._same(torch.tensor(float("nan")), torch.tensor(float("nan")))
    assert not verification._same(torch.tensor(0.0), torch.tensor(-0.0))


def test_a_run_that_ends_before_its_kill_is_made_longer(tiny, here, monkeypatch):
    lengths = []

    def late(count, directory, *words):
        here(*words)
        lengths.append(checkpoint.steps(directory)[-1])
        return lengths[-1]

    monkeypatch.setattr(verification, "killed_after", late)
    monkeypatch.setattr(verification, "TRIES", 2)
    with pytest.raises(UserError, match="all 2 runs, the last of 12 updates, ended before it could be killed"):
        verify_resume(tiny)
    assert lengths == [6, 12]


def test_a_process_that_fails_says_why(tmp_path, monkeypatch):
    fails = [sys.executable, "-c", "print('the disk is full'); raise SystemExit(1)"]
    monkeypatch.setattr(verification, "_command", lambda *words: fails)
    with pytest.raises(UserError, match="failed with exit code 1:\nthe disk is full"):
        verification.finish()
    with pytest.raises(UserError, match="failed with exit code 1:\nthe disk is full"):
        verification.killed_after(1, tmp_path)


def test_the_command_says_it_and_exits_with_it(tiny, here, monkeypatch, tmp_path, call):
    (tmp_path / "run.toml").write_text(to_toml(change_all(tiny, {"steps": None, "minutes": 1.0})))
    done = call("train", "run.toml", "--verify-resume", cwd=tmp_path)
    assert (done.returncode, "the same bits: this run may be killed" in done.stdout) == (0, True)
    assert not (tmp_path / "runs").exists()
    refused = call("train", "run.toml", "--verify-resume", "--out", "x", cwd=tmp_path)
    assert (refused.returncode, "leave out --out" in refused.stderr) == (2, True)
    monkeypatch.setattr(verification, "compare", lambda one, other: (verification.Compared("weights", "", "differ"),))
    broken = call("train", "run.toml", "--verify-resume", cwd=tmp_path)
    assert (broken.returncode, "NOT the same" in broken.stdout) == (1, True)


def test_what_one_of_two_runs_lacks_is_named():
    one = {"a": torch.ones(2)}
    assert verification._gap("a", one, {}) == verification._gap("a", {}, one) == "a, which one of them lacks"
    assert verification._gap("a", one, {"a": torch.zeros(2)}) == "a, by up to 1"
