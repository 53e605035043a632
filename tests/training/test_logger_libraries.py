"""What the libraries of loggers are asked, by stand-ins that record it; TensorBoard and Trackio themselves where they are."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from anyformer.describe import UserError, change_all
from anyformer.training import resume, train
from anyformer.training.journal import read_metrics
from anyformer.training.loggers import Mlflow, Start, Tensorboard, Trackio, Wandb, check_loggers
from anyformer.training.step import Updates

QUIET = Console(quiet=True)
SETTINGS = {"steps": 8, "data": {"paths": ["a"]}, "plan": {"compile": "off"}}


def module(monkeypatch, name: str, **names: Any) -> ModuleType:
    """A module that stands in for a package."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, origin="here")
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def picture(tmp_path) -> Path:
    path = tmp_path / "loss.png"
    Figure().savefig(path)
    return path


@pytest.fixture
def events(monkeypatch) -> list[tuple]:
    """What is asked of torch's writer of event files, which leaves an empty file behind."""
    done: list[tuple] = []

    class SummaryWriter:
        def __init__(self, folder, purge_step=None):
            Path(folder).mkdir(exist_ok=True)
            Path(folder, "events.out.tfevents.0").touch()
            done.append(("open", purge_step))
            self.file_writer = SimpleNamespace(add_summary=lambda part: done.append(("summary", part)))

        def __getattr__(self, name):
            return lambda *given, **named: done.append((name, *given))

    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    module(monkeypatch, "torch.utils.tensorboard.summary", hparams=lambda settings, metrics: [settings, metrics])
    module(monkeypatch, "tensorboard")
    return done


def test_tensorboard_voids_what_a_run_makes_again(events, tmp_path, picture):
    writer = Tensorboard().begin(Start(tmp_path, SETTINGS))
    assert writer.new
    assert writer.where == f"tensorboard --logdir {tmp_path / 'tensorboard'}"
    assert events[0] == ("open", None)
    assert events[1] == ("add_text", "run", '    steps = 8\n    data.paths = ["a"]\n    plan.compile = off', 0)
    hparams = {"steps": 8, "data.paths": '["a"]', "plan.compile": "off"}
    assert events[2:] == [("summary", hparams), ("summary", {"validation/loss": 0})]
    events.clear()
    writer.scalars(3, {"train/loss": 1.5})
    writer.note(3, "skipped", "batch 2")
    writer.flush()
    writer.rewind(2)
    writer.scalars(3, {"train/loss": 1.25})
    writer.close("finished")
    assert events == [
        ("add_scalar", "train/loss", 1.5, 3), ("add_text", "notes/skipped", "batch 2", 3), ("flush",), ("close",), ("open", 3),
        ("add_scalar", "train/loss", 1.25, 3), ("close",),
    ]  # fmt: skip
    events.clear()
    again = Tensorboard().begin(Start(tmp_path, SETTINGS, step=2))
    assert not again.new
    assert events[0] == ("open", 3)
    again.picture(8, "summary/loss", picture)
    assert events[-1][:2] == ("add_image", "summary/loss")
    assert events[-1][2].shape[2] == 4


def test_a_real_event_file_says_what_the_metrics_say(tiny, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    real, sent = Updates.update, []

    def update(self, batch, *more):
        found = real(self, batch, *more)
        if batch.step == 12 and not sent:
            sent.append(batch.step)
            return replace(found, loss=50.0)
        return found

    monkeypatch.setattr(Updates, "update", update)
    spikes = {"kind": "rewind", "window": 8, "above": 8.0}
    train(change_all(tiny, {"steps": 14, "spikes": spikes, "loggers": "tensorboard"}), tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", {"steps": 16}, console=QUIET)
    sizes = {"scalars": 0, "tensors": 0, "images": 0}
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance=sizes)
    found.Reload()
    assert sent
    for kind in ("train", "validation"):
        drawn = [(event.step, event.value) for event in found.Scalars(f"{kind}/loss")]
        rows = [(row["step"], row["loss"]) for row in read_metrics(tmp_path / "run") if row["kind"] == kind]
        assert [step for step, _ in drawn] == [step for step, _ in rows]
        assert [value for _, value in drawn] == pytest.approx([loss for _, loss in rows], rel=1e-6)
    assert [event.step for event in found.Tensors("notes/rewound/text_summary")] == [13]
    assert found.Tags()["images"] == ["summary/loss"]


class Runs:
    """Weights & Biases: runs by their id; `offline` as in WANDB_MODE=offline, where none is known of before."""

    def __init__(self) -> None:
        self.offline, self.mode, self.known, self.asked = False, "online", dict[str, Any](), list[tuple]()

    def init(self, **given):
        known, self.known[given["id"]] = given["id"] in self.known, given
        run = SimpleNamespace(
            id=given["id"], offline=self.offline, resumed=known and not self.offline, dir=f"{given['dir']}/wandb/x-1/files",
            url="https://wandb.test/runs/1", log=self.record("log"), finish=self.record("finish"),
            define_metric=self.record("define_metric"), config=SimpleNamespace(update=self.record("config")),
        )  # fmt: skip
        self.asked.append(
            ("init", {key: given[key] for key in given if key not in ("settings", "id")}, vars(given["settings"]))
        )
        return run

    def record(self, name):
        return lambda *given, **named: self.asked.append((name, *given, *([named] if named else [])))

    def logged(self):
        return [each[1] for each in self.asked if each[0] == "log"]


@pytest.fixture
def runs(monkeypatch) -> Runs:
    kept = Runs()

    class Error(Exception):
        pass

    class Settings(SimpleNamespace):
        model_fields = ("console", "silent", "init_timeout")

    def login(**given):
        raise Error("no key")

    module(
        monkeypatch, "wandb", init=kept.init, Settings=Settings, Image=lambda path: ("image", path), Error=Error, login=login,
        setup=lambda: SimpleNamespace(settings=SimpleNamespace(mode=kept.mode)),
    )  # fmt: skip
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    return kept


def test_wandb_draws_over_a_step_of_its_own_that_may_go_back(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "false")
    (tmp_path / "first").mkdir()
    writer = Wandb(entity="us", tags=("a", "b")).begin(Start(tmp_path / "first", SETTINGS))
    name, asked, settings = runs.asked[0]
    assert name == "init"
    assert asked == {
        "project": "anyformer", "entity": "us", "name": "first", "group": None, "tags": ["a", "b"], "resume": "allow",
        "reinit": "create_new", "dir": str(tmp_path / "first"),
    }  # fmt: skip
    assert settings == {"console": "off", "init_timeout": 30}, "what the library knows and the environment does not say"
    assert runs.asked[1:] == [
        ("config", SETTINGS, {"allow_val_change": True}),
        ("define_metric", "step"),
        ("define_metric", "*", {"step_metric": "step"}),
    ]
    assert (writer.new, writer.where) == (True, "https://wandb.test/runs/1")
    writer.scalars(3, {"train/loss": 1.5})
    writer.rewind(2)
    writer.note(3, "rewound", "spiked 3")
    writer.scalars(3, {"train/loss": 1.25})
    writer.picture(3, "summary/loss", tmp_path / "loss.png")
    assert runs.logged() == [
        {"step": 3, "train/loss": 1.5}, {"step": 3, "notes/rewound": "spiked 3"}, {"step": 3, "train/loss": 1.25},
        {"step": 3, "summary/loss": ("image", str(tmp_path / "loss.png"))},
    ]  # fmt: skip
    for ending, code in (("finished", 0), ("stopped", 0), ("failed", 1)):
        writer.close(ending)
        assert runs.asked[-1] == ("finish", {"exit_code": code})
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    Wandb(name="mine").begin(Start(tmp_path, SETTINGS, ids=writer.ids))
    assert [runs.known[writer.ids["id"]][key] for key in ("project", "name")] == ["theirs", "mine"]
    Wandb(project="own").begin(Start(tmp_path, SETTINGS))
    assert [each[1]["project"] for each in runs.asked if each[0] == "init"][-1] == "own"


@pytest.mark.parametrize("offline", [False, True])
def test_wandb_goes_on_with_its_run_and_an_offline_file_is_told_all(runs, tiny, tmp_path, offline):
    """A file of a run replaces those that were sent before it, so that the newest has to be whole."""
    runs.offline, runs.mode = offline, "offline"
    train(change_all(tiny, {"loggers": "wandb", "steps": 4}), tmp_path / "run", console=QUIET)
    before = runs.logged()
    assert [row["step"] for row in before if "train/loss" in row] == [1, 2, 3, 4]
    runs.asked.clear()
    resume(tmp_path / "run", {"steps": 8}, console=QUIET)
    assert len(runs.known) == 1
    told = [row["step"] for row in runs.logged() if "train/loss" in row]
    assert told == ([1, 2, 3, 4, 5, 6, 7, 8] if offline else [5, 6, 7, 8])


def test_wandb_without_a_login_is_refused_but_offline(runs):
    with pytest.raises(UserError, match=r"'wandb' is not logged in \(no key\): run wandb login, .* or set WANDB_MODE=offline"):
        check_loggers([Wandb()])
    runs.mode = "offline"
    check_loggers([Wandb()])


class Store:
    """MLflow's client, for every place alike; each of its methods is recorded."""

    def __init__(self) -> None:
        self.asked, self.uris, self.params = list[tuple](), list[str](), dict[str, str]()

    def client(self, tracking_uri):
        self.uris.append(tracking_uri)
        return self

    def get_experiment_by_name(self, name):
        return None if name == "anyformer" else SimpleNamespace(experiment_id="7")

    def create_experiment(self, name):
        return "8"

    def create_run(self, experiment, run_name):
        self.asked.append(("create_run", experiment, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def get_run(self, run):
        return SimpleNamespace(data=SimpleNamespace(params=self.params))

    def log_batch(self, run, metrics=(), params=()):
        self.params |= dict(params)
        self.asked.append(("log_batch", run, [(*each[:2], *each[3:]) for each in metrics], list(params)))

    def __getattr__(self, name):
        return lambda *given, **named: self.asked.append((name, *given, *named.values()))


@pytest.fixture
def store(monkeypatch) -> Store:
    kept = Store()
    module(monkeypatch, "mlflow", MlflowClient=kept.client, get_tracking_uri=lambda: "sqlite:////here/mlflow.db")
    module(monkeypatch, "mlflow.entities", Metric=lambda *given: given, Param=lambda *given: given)
    for name in ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "")  # so that it is as before once the test is over
        monkeypatch.delenv(name)
    return kept


def test_mlflow_sends_batches_and_says_how_the_run_ended(store, tmp_path, picture):
    (tmp_path / "first").mkdir()
    writer = Mlflow().begin(Start(tmp_path / "first", {**SETTINGS, "long": "x" * 7000}))
    assert (writer.new, writer.where) == (True, "run r1 at sqlite:////here/mlflow.db")
    assert store.asked[0] == ("create_run", "8", "first")
    pairs = [("steps", "8"), ("data.paths", '["a"]'), ("plan.compile", "off"), ("long", "x" * 6000)]
    assert store.asked[1:] == [("log_batch", "r1", [], pairs)]
    store.asked.clear()
    writer.scalars(3, {"train/loss": 1.5, "train/seconds": 2.0})
    assert store.asked == []
    writer.flush()
    assert store.asked == [("log_batch", "r1", [("train/loss", 1.5, 3), ("train/seconds", 2.0, 3)], [])]
    store.asked.clear()
    writer.scalars(4, {str(number): 0.5 for number in range(2500)})
    assert [len(each[2]) for each in store.asked] == [1000, 1000, 500]
    writer.note(5, "skipped", "batch 4")
    writer.picture(8, "summary/loss", picture)
    assert store.asked[3:] == [("set_tag", "r1", "skipped.5", "batch 4"), ("log_artifact", "r1", str(picture))]
    writer.scalars(9, {"train/loss": 1.0})
    for ending, status in (("finished", "FINISHED"), ("stopped", "KILLED"), ("failed", "FAILED")):
        writer.close(ending)
        assert store.asked[-1] == ("set_terminated", "r1", status)
    assert ("log_batch", "r1", [("train/loss", 1.0, 9)], []) in store.asked


def test_mlflow_goes_on_with_its_run_wherever_it_was_started(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    many = {f"p{number}": number for number in range(250)}
    first = Mlflow(uri="file:runs", experiment="known", name="n").begin(Start(tmp_path, many))
    assert store.asked[0] == ("create_run", "7", "n")
    assert [len(each[3]) for each in store.asked[1:]] == [100, 100, 50]
    assert os.environ["MLFLOW_ALLOW_FILE_STORE"] == "true"
    assert first.ids == {"run": "r1", "uri": (tmp_path / "runs").as_uri(), "asked": "file:runs"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.asked.clear()
    again = Mlflow(uri="file:runs").begin(Start(tmp_path, {**many, "p7": "new"}, step=5, ids=first.ids))
    assert (again.new, again.ids, store.uris) == (False, first.ids, [(tmp_path / "runs").as_uri()] * 2)
    assert store.asked == [("update_run", "r1", "RUNNING"), ("set_tag", "r1", "changed.5.p7", "new")]
    moved = Mlflow(uri="http://server").begin(Start(tmp_path, SETTINGS, step=5, ids=first.ids))
    assert (moved.new, store.uris[-1]) == (True, "http://server")


@pytest.fixture
def tracked(monkeypatch) -> list[tuple]:
    """What is asked of Trackio."""
    asked: list[tuple] = []

    def init(**given):
        asked.append(("init", given))
        return SimpleNamespace(
            name=given["name"],
            log=lambda values, step: asked.append(("log", step, values)),
            finish=lambda: asked.append(("finish",)),
        )

    module(monkeypatch, "trackio", init=init, Image=lambda path: ("image", Path(path).name))
    return asked


def test_trackio_goes_on_with_its_run_by_the_name_that_no_other_has(tracked, tmp_path, picture):
    check_loggers([Trackio()])
    writer = Trackio(group="g", space="me/runs").begin(Start(tmp_path / "first", SETTINGS))
    ((_, given),) = tracked
    name = given.pop("name")
    assert given == {"project": "anyformer", "group": "g", "space_id": "me/runs", "config": SETTINGS, "resume": "never"}
    assert name.startswith("first-")
    assert name != Trackio().begin(Start(tmp_path / "first", SETTINGS)).ids["name"]
    assert (writer.new, writer.ids) == (True, {"project": "anyformer", "name": name})
    assert writer.where == "trackio show --project anyformer"
    tracked.clear()
    again = Trackio(project="other").begin(Start(tmp_path / "moved", SETTINGS, step=2, ids=writer.ids))
    assert not again.new
    assert (tracked[0][1]["name"], tracked[0][1]["project"], tracked[0][1]["resume"]) == (name, "anyformer", "allow")
    again.scalars(3, {"train/loss": 1.5})
    again.note(3, "skipped", "batch 2")
    again.picture(8, "summary/loss", picture)
    again.close("stopped")
    assert tracked[1:] == [
        ("log", 3, {"train/loss": 1.5}), ("log", 3, {"notes/skipped": "batch 2"}),
        ("log", 8, {"summary/loss": ("image", "loss.png")}), ("finish",),
    ]  # fmt: skip
    assert Trackio(name="mine").begin(Start(tmp_path, SETTINGS)).ids["name"] == "mine"


def test_a_real_project_of_trackio_holds_what_the_metrics_say(tiny, tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "kept"))
    from trackio.sqlite_storage import SQLiteStorage

    train(change_all(tiny, {"steps": 4, "loggers": "trackio"}), tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", {"steps": 8}, console=QUIET)
    (name,) = SQLiteStorage.get_runs("anyformer")
    logs = SQLiteStorage.get_logs("anyformer", name)
    found = [(row["step"], row["train/loss"]) for row in logs if "train/loss" in row]
    rows = [(row["step"], row["loss"]) for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    assert found == rows
