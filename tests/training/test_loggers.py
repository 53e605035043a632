"""Loggers are told exactly what the metrics say, over every stop; and whatever they do, the run is the same."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import DescriptionError, UserError, change_all, from_toml, parse_assignment, to_toml
from anyformer.training import Run, resume, train
from anyformer.training.journal import read_metrics
from anyformer.training.loggers import Mlflow, Start, Tensorboard, Wandb, Writer, check_loggers, follower, following
from anyformer.training.loggers.follower import Follower, whole
from anyformer.training.loggers.scalars import flat, named, scalars, words
from anyformer.training.metrics import Metrics
from anyformer.training.step import Updates
from anyformer.training.verification import shortened

LOGGED = {"loggers": "wandb"}


class Broken(BaseException):
    """What nobody expects of a library."""


@dataclass
class Place:
    """A place that remembers everything told in one process after another; `acts`: what it does besides, by the method."""

    starts: list[Start] = field(default_factory=list)
    told: list[tuple] = field(default_factory=list)
    new: bool | None = None
    """Whether a writer says that the place holds nothing; None: the first one does."""
    acts: dict = field(default_factory=dict)

    def steps(self, name):
        """The steps at which this number was told, with those that were forgotten taken away."""
        kept = []
        for kind, step, facts in self.told:
            if kind == "scalars" and name in facts:
                kept.append((step, facts[name]))
            elif kind == "rewind":
                kept = [each for each in kept if each[0] <= step]
        return kept

    def count(self, kind):
        return sum(each[0] == kind for each in self.told)


class Recording(Writer):
    def __init__(self, place: Place, start: Start) -> None:
        self.place = place
        self.act("begin")
        place.starts.append(start)
        self.where, self.ids = "here", {"id": "mine"}
        self.new = len(place.starts) == 1 if place.new is None else place.new

    def act(self, method):
        self.place.acts.get(method, lambda: None)()

    def scalars(self, step, values):
        self.act("scalars")
        self.place.told.append(("scalars", step, dict(values)))

    def note(self, step, kind, text):
        self.act("note")
        self.place.told.append(("note", step, {kind: text}))

    def picture(self, step, name, path):
        self.place.told.append(("picture", step, {name: path.read_bytes()}))

    def rewind(self, step):
        self.act("rewind")
        self.place.told.append(("rewind", step, {}))

    def flush(self):
        self.act("flush")

    def close(self, ending):
        self.act("close")
        self.place.told.append(("close", -1, {"ending": ending}))


@pytest.fixture
def place(monkeypatch) -> Place:
    """The place that the logger `wandb` writes to in this test, with no package."""
    kept, module = Place(), ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None, origin="here")
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr(Wandb, "check", lambda self: None)
    monkeypatch.setattr(Wandb, "begin", lambda self, start: Recording(kept, start))
    return kept


@pytest.fixture
def logged(tiny) -> Run:
    return change_all(tiny, LOGGED)


@pytest.fixture
def stop_at(monkeypatch):
    """Ctrl-C before the update of this number, from 0, once."""

    def stopping(stop: int) -> None:
        real, sent = Updates.update, []

        def update(self, batch, *more):
            if batch.step == stop and not sent:
                sent.append(batch.step)
                os.kill(os.getpid(), signal.SIGINT)
            return real(self, batch, *more)

        monkeypatch.setattr(Updates, "update", update)

    return stopping


@pytest.fixture
def spike_at(monkeypatch):
    """A loss of 50 in the update of this number, from 0, once."""

    def spiking(spiked: int) -> None:
        real, sent = Updates.update, []

        def update(self, batch, *more):
            found = real(self, batch, *more)
            if batch.step != spiked or sent:
                return found
            sent.append(batch.step)
            return replace(found, loss=50.0)

        monkeypatch.setattr(Updates, "update", update)

    return spiking


def said(run, directory, go=train):
    """What a run prints."""
    console = Console(record=True, width=300, file=open(os.devnull, "w"))  # noqa: SIM115
    go(run, directory, console=console) if go is train else go(directory, run, console=console)
    return console.export_text().splitlines()


def losses(directory, kind="train"):
    return [(row["step"], row["loss"]) for row in read_metrics(directory) if row["kind"] == kind]


def weights(directory):
    last = checkpoint.directory_of(directory, checkpoint.steps(directory)[-1])
    return (last / "model.safetensors").read_bytes()


def kept_lines(directory):
    return json.loads((directory / "loggers" / "wandb.json").read_text())


def agrees(place, directory):
    """Whether a place has every loss of the metrics, once each and no other."""
    assert place.steps("train/loss") == losses(directory)
    assert place.steps("validation/loss") == losses(directory, "validation")


def test_a_logger_is_told_every_line_under_stable_names(logged, place, tmp_path):
    lines = said(logged, tmp_path / "run")
    agrees(place, tmp_path / "run")
    train_names = {"loss", "gradient_norm", "tokens", "learning_rate", "seconds", "tokens_per_second"}
    train_names |= {"tokens_per_second_per_device", "mfu", "hfu", "memory", "communication", "data", "saving"}
    assert {*place.told[0][2]} == {f"train/{name}" for name in train_names}
    evaluated = next(facts for _, _, facts in place.told if "validation/loss" in facts)
    assert {*evaluated} == {f"validation/{name}" for name in ("loss", "perplexity", "bits_per_byte", "tokens", "accuracy")}
    speeds, seconds = dict(place.steps("train/tokens_per_second")), dict(place.steps("train/seconds"))
    assert all(speeds[step] == pytest.approx(4 * 32 / seconds[step]) for step in seconds)
    ((start,), last) = place.starts, place.told[-1]
    assert (start.settings, start.name, start.step, start.ids) == (read_plain(tmp_path / "run"), "run", 0, {})
    assert last == ("close", -1, {"ending": "finished"})
    assert place.steps("summary/memory/measured")[0][0] == 8
    assert [facts["summary/loss"][:4] for kind, _, facts in place.told if kind == "picture"] == [b"\x89PNG"]
    assert kept_lines(tmp_path / "run") == {"id": "mine", "lines": len(read_metrics(tmp_path / "run"))}
    assert "wandb: here" in lines
    assert not [line for line in lines if "stops" in line]


def read_plain(directory):
    from anyformer.training import read_run

    return read_run(directory).plain()


def rude():
    """Disturb whatever somebody could compute with."""
    for disturb in (random.seed, np.random.seed, torch.manual_seed):
        disturb(0)


def test_no_number_of_a_run_depends_on_its_loggers(tiny, place, tmp_path):
    train(tiny, tmp_path / "alone", console=Console(quiet=True))
    place.acts = {"begin": rude, "scalars": rude, "flush": rude}
    train(change_all(tiny, LOGGED), tmp_path / "logged", console=Console(quiet=True))
    assert losses(tmp_path / "logged") == losses(tmp_path / "alone")
    assert weights(tmp_path / "logged") == weights(tmp_path / "alone")
    agrees(place, tmp_path / "logged")


RAISED = [(method, OSError("no\nroute")) for method in ("begin", "scalars", "flush", "close")]
RAISED += [("begin", SystemExit(3)), ("scalars", Broken("no route"))]


@pytest.mark.parametrize(("method", "error"), RAISED, ids=lambda each: each if isinstance(each, str) else type(each).__name__)
def test_what_a_logger_raises_is_one_warning_and_ends_it_alone(logged, place, tmp_path, method, error):
    def fail():
        raise error

    place.acts = {method: fail}
    lines = said(logged, tmp_path / "run")
    assert losses(tmp_path / "run")[-1][0] == 8
    (warning,) = [line for line in lines if "wandb stops" in line]
    reason = " ".join(str(error).split())
    assert warning == (
        f"wandb stops: {type(error).__name__}: {reason}. metrics.jsonl is whole, and tells it the rest when the run is resumed"
    )
    assert place.count("close") == 0


@pytest.mark.parametrize("method", ["begin", "scalars", "close"])
def test_a_logger_that_hangs_is_not_waited_for(logged, place, tmp_path, method, monkeypatch):
    monkeypatch.setattr(following, "LONGEST", 0.1)
    never = threading.Event()
    place.acts = {method: never.wait}
    try:
        lines = said(logged, tmp_path / "run")
    finally:
        never.set()
    assert losses(tmp_path / "run")[-1][0] == 8
    assert [line for line in lines if line.startswith("wandb stops: it was not done within 0 s of the end.")]


def test_the_end_waits_for_all_loggers_together_no_longer_than_for_one(monkeypatch, tmp_path):
    """Of 30 s the first takes 12, the second has 18 and takes 8, and the third, which has 10, is given up."""
    now, waited = [1000.0], list[float]()

    class Over(threading.Event):
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds

        def wait(self, timeout=None):
            waited.append(timeout)
            now[0] += min(timeout, self.seconds)
            return self.seconds <= timeout

    monkeypatch.setattr(following, "monotonic", lambda: now[0])
    console = Console(record=True, width=300, file=io.StringIO())
    followers = [Follower(logger(), Start(tmp_path, {}), (), 128) for logger in (Wandb, Mlflow, Tensorboard)]
    for each, seconds in zip(followers, (12.0, 8.0, 99.0), strict=True):
        monkeypatch.setattr(each, "begin", lambda: None)
        each.over = Over(seconds)
    with following.Following(followers, console):
        pass
    assert waited == [30.0, 18.0, 10.0]
    assert [line.split(".")[0] for line in console.export_text().splitlines()] == [
        "tensorboard stops: it was not done within 30 s of the end"
    ]


def test_a_logger_that_lies_behind_too_far_is_given_up(logged, place, tmp_path, monkeypatch):
    monkeypatch.setattr(follower, "BEHIND", 3)
    monkeypatch.setattr(following, "LONGEST", 0.1)
    never = threading.Event()
    place.acts = {"begin": never.wait}
    try:
        lines = said(logged, tmp_path / "run")
    finally:
        never.set()
    assert [line for line in lines if line.startswith("wandb stops: 3 messages wait for it.")]


def test_a_resumed_run_goes_on_where_the_logger_was(logged, place, tmp_path, stop_at):
    stop_at(5)
    train(logged, tmp_path / "run", console=Console(quiet=True))
    assert place.told[-1] == ("close", -1, {"ending": "stopped"})
    resume(tmp_path / "run", console=Console(quiet=True))
    _, second = place.starts
    assert (second.ids, second.step) == ({"id": "mine"}, 5)
    agrees(place, tmp_path / "run")
    assert not place.count("rewind")


def test_a_place_that_holds_nothing_is_told_all_again(logged, place, tmp_path, stop_at):
    stop_at(5)
    train(logged, tmp_path / "run", console=Console(quiet=True))
    place.told.clear()
    place.new = True
    resume(tmp_path / "run", console=Console(quiet=True))
    agrees(place, tmp_path / "run")


def test_what_a_killed_process_did_not_hand_over_is_told_by_the_next(logged, place, tmp_path, stop_at):
    """A step is told as a whole: its evaluation is missing here, so that its update is told again too."""
    stop_at(5)
    train(logged, tmp_path / "run", console=Console(quiet=True))
    assert [row["kind"] for row in read_metrics(tmp_path / "run")[3:5]] == ["train", "validation"]
    (tmp_path / "run" / "loggers" / "wandb.json").write_text(json.dumps({"id": "mine", "lines": 4}))
    place.told[:] = place.told[:3]
    resume(tmp_path / "run", console=Console(quiet=True))
    assert place.starts[1].step == 3
    agrees(place, tmp_path / "run")


def test_lines_that_come_again_are_told_even_if_the_logger_fails_before(logged, place, tmp_path, stop_at):
    """It was told more than the checkpoint has, and does not begin in the process that makes these updates again."""

    def fail():
        raise OSError("no route")

    stop_at(5)
    train(logged, tmp_path / "run", console=Console(quiet=True))
    (tmp_path / "run" / "loggers" / "wandb.json").write_text(json.dumps({"id": "mine", "lines": 9}))
    place.acts = {"begin": fail}
    resume(tmp_path / "run", console=Console(quiet=True))
    assert kept_lines(tmp_path / "run") == {"id": "mine", "lines": 6}
    place.acts = {}
    resume(tmp_path / "run", console=Console(quiet=True))
    agrees(place, tmp_path / "run")


def test_a_logger_that_failed_or_comes_late_is_told_all_when_the_run_goes_on(tiny, place, tmp_path, stop_at):
    stop_at(5)
    train(tiny, tmp_path / "run", console=Console(quiet=True))
    resume(tmp_path / "run", LOGGED, console=Console(quiet=True))
    agrees(place, tmp_path / "run")


def test_a_finished_run_tells_what_was_missed_and_nothing_twice(tiny, place, tmp_path):
    train(tiny, tmp_path / "run", console=Console(quiet=True))
    assert "nothing to do" in said(LOGGED, tmp_path / "run", resume)[-1]
    agrees(place, tmp_path / "run")
    assert place.told[-1] == ("close", -1, {"ending": "finished"})
    assert place.count("picture") == 1
    resume(tmp_path / "run", console=Console(quiet=True))
    assert len(place.starts) == 1


def test_an_error_of_the_run_is_how_its_loggers_end(logged, place, tmp_path, monkeypatch):
    def fail(*given):
        raise UserError("broken")

    monkeypatch.setattr(Updates, "update", fail)
    with pytest.raises(UserError, match="broken"):
        train(logged, tmp_path / "run", console=Console(quiet=True))
    assert place.told == [("close", -1, {"ending": "failed"})]


SPIKES = {"steps": 20, "checkpoints.every": 5, "spikes": {"kind": "rewind", "window": 8, "above": 8.0}}


def test_a_logger_forgets_what_the_run_goes_back_for(logged, place, tmp_path, spike_at):
    spike_at(12)
    train(change_all(logged, SPIKES), tmp_path / "run", console=Console(quiet=True))
    assert place.count("rewind") == 1
    assert all(loss < 10 for _, loss in place.steps("train/loss"))
    agrees(place, tmp_path / "run")
    ((step, facts),) = [(step, facts) for kind, step, facts in place.told if kind == "note"]
    assert step == 11
    assert facts["rewound"].startswith("spiked 13, batch 10, batches 3, loss 50,")


def test_lines_after_a_rewind_are_told_even_if_the_logger_never_learnt_of_it(logged, place, tmp_path, spike_at, monkeypatch):
    """It hangs before it is told to forget, and the process ends: by their number the old lines stand for the new ones."""
    monkeypatch.setattr(following, "LONGEST", 0.1)
    never = threading.Event()
    place.acts = {"rewind": never.wait}
    spike_at(12)
    changed = change_all(logged, SPIKES)
    train(changed, tmp_path / "run", console=Console(quiet=True))
    stands = [row["step"] <= 10 for row in read_metrics(tmp_path / "run")].index(False)
    assert kept_lines(tmp_path / "run")["lines"] <= stands
    told = place.steps("train/loss")
    place.told, place.acts = [("scalars", step, {"train/loss": loss}) for step, loss in told if step <= 10], {}
    resume(tmp_path / "run", console=Console(quiet=True))
    assert place.steps("train/loss") == losses(tmp_path / "run")
    never.set()


def test_steps_are_told_whole():
    rows = [{"step": step} for step in (1, 2, 2, 3)]
    assert [whole(rows, lines) for lines in range(5)] == [0, 1, 1, 3, 4]


def test_a_file_of_another_version_or_none_is_no_error(tmp_path, place):
    rows = [{"kind": "train", "step": 1, "loss": 1.0}]
    for text, lines in (("{", 0), ("[]", 0), ('{"lines": "x"}', 0), ('{"lines": 9}', 1), ('{"lines": -3}', 0)):
        path = tmp_path / "loggers" / "wandb.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        assert Follower(Wandb(), Start(tmp_path, {}), rows, 1).behind is (lines == 0)


def test_what_was_told_is_written_out_while_the_run_goes_on(tmp_path, place, monkeypatch):
    """So that little is missing if the process is killed; nothing here ends the follower."""
    monkeypatch.setattr(follower, "EVERY", 0.01)
    told = Follower(Wandb(), Start(tmp_path, {}), [], 1)
    told.begin()
    told.told(1, {"kind": "train", "step": 1, "loss": 2.0})
    for _ in range(6000):
        if kept_lines(tmp_path)["lines"]:
            break
        time.sleep(0.01)
    assert kept_lines(tmp_path) == {"id": "mine", "lines": 1}
    told.end("stopped")
    assert told.over.wait(60)


def test_only_the_first_process_has_loggers(logged, tmp_path):
    tell = [Metrics.read(tmp_path, logged, Console(quiet=True), writes=writes).loggers.followers for writes in (True, False)]
    assert [len(each) for each in tell] == [1, 0]


def test_names_of_numbers_are_plain_and_stay_the_same():
    row = {
        "kind": "validation", "step": 4, "tokens": 9, "last": True, "loss": 1.5, "perplexity": None, "targets": 7, "seen": 7,
        "whole": 9, "unit": "tokens", "metrics": {"f1 of a/b é": 0.5, "..": 1},
        "experts": {"decoder.0": {"shares": [0.5, 0.5], "dropped": 0.0}},
    }  # fmt: skip
    assert scalars(row, 5) == {
        "validation/tokens": 9, "validation/loss": 1.5, "validation/f1_of_a_b_é": 0.5, "validation/_": 1,
        "validation/experts/decoder.0/dropped": 0.0,
    }  # fmt: skip
    assert scalars({"kind": "train", "step": 1, "seconds": 0.5, "data": "ab"}, 5)["train/tokens_per_second"] == 10
    assert scalars({"kind": "skipped", "step": 1, "batch": 3}, 5) == {}
    assert (
        words({"kind": "skipped", "step": 1, "batch": 3, "reason": "nan", "loss": 1 / 3})
        == "batch 3, reason nan, loss 0.333333"
    )
    assert named({"a": {"b": 1, "c": True}, "d": None}, "summary") == {"summary/a/b": 1}
    assert flat({"a": {"b": [1, 2]}, "c": [{"d": 1}, "e"], "f": [], "g": True}) == {
        "a.b": "[1, 2]", "c.0.d": 1, "c.1": "e", "f": "[]", "g": True,
    }  # fmt: skip


def test_loggers_are_described_by_words_or_tables_and_come_back(tiny):
    for text in ("loggers=wandb", 'loggers=["wandb"]', 'loggers={kind="wandb"}'):
        run = change_all(tiny, dict([parse_assignment(text)]))
        assert run.loggers == (Wandb(),)
        assert from_toml(Run, to_toml(run)) == run
    several = change_all(tiny, {"loggers": ["tensorboard", {"kind": "wandb", "project": "p"}, "mlflow"]})
    assert several.loggers == (Tensorboard(), Wandb(project="p"), Mlflow())
    assert several.plain()["loggers"] == ["tensorboard", {"kind": "wandb", "project": "p", "tags": []}, "mlflow"]
    with pytest.raises(DescriptionError, match=r"loggers: 'wandb' is named 2 times: name it once"):
        change_all(tiny, {"loggers": ["wandb", {"kind": "wandb", "project": "p"}]})
    with pytest.raises(DescriptionError, match=r"'tensorbord' is no kind; did you mean 'tensorboard'"):
        change_all(tiny, {"loggers": ["tensorbord"]})


def test_a_missing_package_is_told_before_any_work(tiny, tmp_path, monkeypatch):
    """A folder of the same name is a module without an origin, as `wandb/` is, which W&B leaves in the working directory."""
    monkeypatch.setattr(Wandb, "package", "wandb_is_not_here")
    missing = r"loggers: 'wandb' needs the package wandb_is_not_here, which is not installed: pip install 'anyformer\[wandb\]'"
    with pytest.raises(UserError, match=missing):
        train(change_all(tiny, LOGGED), tmp_path / "run", console=Console(quiet=True))
    assert not (tmp_path / "run").exists()
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "wandb_is_not_here").mkdir()
    with pytest.raises(UserError, match=missing):
        check_loggers([Wandb()])
    (tmp_path / "wandb_is_not_here" / "__init__.py").write_text("import nothing_of_this_name")
    with pytest.raises(UserError, match=r"cannot be imported \(No module named 'nothing_of_this_name'\): pip install"):
        check_loggers([Wandb()])
    train(tiny, tmp_path / "run", console=Console(quiet=True))
    with pytest.raises(UserError, match="cannot be imported"):
        resume(tmp_path / "run", {"steps": 9, **LOGGED}, console=Console(quiet=True))
    assert losses(tmp_path / "run")[-1][0] == 8


def test_the_proof_of_resuming_has_no_loggers(logged):
    assert shortened(logged, 6).loggers == ()


def test_nothing_is_imported_unless_it_is_asked_for(tiny):
    code = (
        "import sys, anyformer.training\n"
        "print({'wandb', 'mlflow', 'tensorboard', 'torch.utils.tensorboard', 'matplotlib'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "set()"


def test_the_command_line_takes_loggers(call, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(Tensorboard, "package", "tensorboard_is_not_here")
    (tmp_path / "run.toml").write_text(to_toml(tiny))
    asked = ("train", "run.toml", "--logger", "tensorboard", "--out", "out")
    refused = call(*asked, cwd=tmp_path)
    assert refused.returncode == 2
    assert "loggers: 'tensorboard' needs the package tensorboard_is_not_here" in refused.stderr
    both = call(*asked, "--set", "loggers=[]", cwd=tmp_path)
    assert both.returncode == 2
    assert "give either --logger or --set loggers=" in both.stderr
    assert not (tmp_path / "out").exists()
