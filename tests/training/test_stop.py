"""Ctrl-C and SIGTERM at any moment end the work soon, say what it did, and lose nothing that was trained."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.cli.train import _kept
from anyformer.data import BytePairs, tokenizer_training
from anyformer.data.tokenizer_training import learn, learn_in_process
from anyformer.describe import change_all, to_toml
from anyformer.training import Stopped, loop, resume, train, trainer
from anyformer.training.journal import read_metrics
from anyformer.training.step import Updates
from anyformer.training.stop import listening

QUIET = Console(quiet=True)


def train_losses(directory):
    return [row["loss"] for row in read_metrics(directory) if row["kind"] == "train"]


def signalling(monkeypatch, owner, name, number=signal.SIGINT, when=lambda: True):
    """Let a function of the package send this process a signal, once, before it works."""
    real, sent = getattr(owner, name), []

    def function(*args, **more):
        if not sent and when():
            sent.append(1)
            os.kill(os.getpid(), number)
        return real(*args, **more)

    monkeypatch.setattr(owner, name, function)


@pytest.mark.parametrize("stage", ["measured_host", "corpus_together", "fit"])
def test_before_the_first_update_there_is_nothing_to_keep(tiny, tmp_path, monkeypatch, stage):
    signalling(monkeypatch, loop, stage, signal.SIGTERM)
    run = change_all(tiny, {"steps": None, "minutes": 0.05})
    with pytest.raises(Stopped, match="stopped while") as stopped:
        train(run, tmp_path / "deep" / "run", console=QUIET)
    assert stopped.value.exit_code == 143
    assert not (tmp_path / "deep").exists()
    assert not list((tmp_path / "cache").glob(".*-*"))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("last", [False, True])
def test_in_an_evaluation_what_is_trained_is_saved_and_the_evaluation_comes_again(tiny, tmp_path, monkeypatch, last):
    whole = train(tiny, tmp_path / "whole", console=QUIET)
    looks = []
    signalling(monkeypatch, trainer, "evaluate", when=lambda: looks.append(1) or len(looks) == (2 if last else 1))
    halted = train(tiny, tmp_path / "run", console=QUIET)
    assert (halted.finished, halted.exit_code, halted.step) == (False, 130, 8 if last else 4)
    assert (halted.prompts, halted.chat) == ((), False), "there is no sample of a run that is not finished"
    assert checkpoint.steps(tmp_path / "run")[-1] == halted.step
    again = resume(tmp_path / "run", console=QUIET)
    assert again.finished
    assert train_losses(tmp_path / "run") == train_losses(tmp_path / "whole")
    assert [row["step"] for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"] == [4, 8]
    assert again.validation.loss == whole.validation.loss
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), whole.model.parameters(), strict=True))


def test_a_checkpoint_that_is_begun_is_finished_first(tiny, tmp_path, monkeypatch, capfd):
    signalling(monkeypatch, checkpoint, "contents", signal.SIGTERM)
    halted = train(tiny, tmp_path / "run", console=QUIET)
    assert (halted.step, halted.exit_code) == (3, 143)
    assert checkpoint.latest(tmp_path / "run") == (checkpoint.directory_of(tmp_path / "run", 3), [])
    assert "saving a checkpoint, then stopping" in capfd.readouterr().err


def test_a_checkpoint_that_is_written_while_training_goes_on_is_finished(tiny, tmp_path, monkeypatch):
    signalling(monkeypatch, checkpoint, "write", signal.SIGTERM)
    halted = train(tiny, tmp_path / "run", console=QUIET)
    assert halted.exit_code == 143
    assert 3 <= halted.step < 8
    assert checkpoint.latest(tmp_path / "run") == (checkpoint.directory_of(tmp_path / "run", halted.step), [])


def test_an_update_whose_weights_have_changed_is_finished_with_its_line(tiny, tmp_path, monkeypatch):
    signalling(monkeypatch, torch.optim.AdamW, "step")
    halted = train(change_all(tiny, {"plan.profile": {"steps": [1]}}), tmp_path / "run", console=QUIET)
    assert halted.step == 1
    assert len(train_losses(tmp_path / "run")) == 1
    assert [path.parent.name for path in (tmp_path / "run").rglob("rank0.json.gz")] == ["step-00000001"], "its trace, too"
    whole = train(tiny, tmp_path / "whole", console=QUIET)
    again = resume(tmp_path / "run", console=QUIET)
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), whole.model.parameters(), strict=True))


def test_a_launcher_that_hands_the_signal_on_does_not_interrupt_the_saving():
    """Slurm sends SIGTERM to every process of a job, and torchrun sends its own once more."""
    before = signal.getsignal(signal.SIGTERM)
    saved = []

    def save():
        with listening(launched=True) as stop, stop.held("saving a checkpoint"):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
            saved.append(1)

    with pytest.raises(Stopped):
        save()
    assert saved
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_error_of_several_processes_is_told_before_their_launcher_ends_them():
    """The first that ends is what the launcher tells the others to end for, which may be clearing up at that moment."""

    def fail():
        with listening(launched=True) as stop:
            try:
                with stop.held_together("finishing the update in all processes"):
                    raise RuntimeError("gloo: connection reset")
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                stop.check()

    with pytest.raises(RuntimeError, match="connection reset"):
        fail()


@pytest.mark.parametrize(
    ("step", "resumes", "said"),
    [(None, False, "nothing"), (80, True, "step 80"), (0, False, "saved yet"), (None, True, "is kept")],
)
def test_a_stop_that_saves_nothing_tells_what_is_left(step, resumes, said):
    assert said in _kept(step, resumes=resumes)


def test_sigterm_is_not_told_as_ctrl_c(monkeypatch, capfd):
    for number, said in ((signal.SIGTERM, "SIGTERM: saving, then stopping\n"), (signal.SIGINT, "Ctrl-C again ends at once\n")):
        with pytest.raises(Stopped), listening() as stop, stop.held("saving"):
            os.kill(os.getpid(), number)
        assert capfd.readouterr().err.endswith(said)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(Stopped), listening() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
    assert capfd.readouterr().err == "", "the first process tells it"


def test_in_the_first_update_nothing_was_trained(tiny, tmp_path, monkeypatch):
    signalling(monkeypatch, Updates, "update")
    console = Console(record=True, width=300, file=io.StringIO())
    assert train(tiny, tmp_path / "run", console=console).step == 0
    assert "stopped before the first update; nothing was trained yet; continue with: " in console.export_text()


def test_the_second_signal_ends_once_the_writer_has(tiny, tmp_path, monkeypatch):
    signalling(monkeypatch, checkpoint, "contents")
    signalling(monkeypatch, checkpoint.model, "save_file")
    with pytest.raises(KeyboardInterrupt):
        train(tiny, tmp_path / "run", console=QUIET)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003"], "nothing half is left"


class Clearing:
    """Does something when it is cleared up, where Python drops whatever a handler raises."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def test_a_signal_while_something_is_cleared_up_is_obeyed(capfd):
    handlers, hook = signal.getsignal(signal.SIGTERM), sys.unraisablehook

    def work():
        with listening() as stop:
            stop.doing = "waiting"
            Clearing(lambda: signal.raise_signal(signal.SIGTERM))
            Clearing(lambda: time.sleep(0.5))  # within which it comes again
            time.sleep(20)

    with pytest.raises(Stopped, match="stopped while waiting") as raised:
        work()
    assert raised.value.exit_code == 143
    assert "Traceback" not in capfd.readouterr().err
    assert (signal.getsignal(signal.SIGTERM), sys.unraisablehook) == (handlers, hook)


def test_learning_tokens_ends_with_a_signal_and_leaves_no_process(monkeypatch):
    """The child stands in for the library, which hears nothing while it counts; the signal comes once it has all texts."""
    code = "import os, signal, sys, time; sys.stdin.buffer.read(); os.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
    monkeypatch.setattr(tokenizer_training, "CODE", code)
    started = []
    real = subprocess.Popen
    monkeypatch.setattr(tokenizer_training.subprocess, "Popen", lambda *a, **k: started.append(real(*a, **k)) or started[-1])
    with pytest.raises(KeyboardInterrupt):
        learn_in_process(BytePairs(vocab=300), ["some text"])
    assert started[0].returncode == -signal.SIGKILL


def test_tokens_learnt_apart_are_those_learnt_here():
    texts = [f"the cat number {i} sat on the mat\n" for i in range(200)]
    spec = BytePairs(vocab=320)
    assert learn_in_process(spec, texts) == learn(spec, texts)


def test_ctrl_c_of_the_command_saves_and_says_how_to_go_on(tiny, tmp_path):
    run = tmp_path / "run.toml"
    run.write_text(to_toml(change_all(tiny, {"steps": 100_000})))
    command = [sys.executable, "-m", "anyformer", "train", str(run), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(train_losses(tmp_path / "out")) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "loading torch" in errors
    assert "Ctrl-C again ends at once" in errors
    assert f"train --resume {tmp_path / 'out'}" in output
    assert checkpoint.steps(tmp_path / "out") == [len(train_losses(tmp_path / "out"))]
