"""Runs whose checkpoints have a copy in a store: whole or not at all, pruned alike, gone on with elsewhere, and loaded."""

from __future__ import annotations

import errno
import re
import shutil
from io import StringIO
from pathlib import Path

import fsspec
import pytest
import torch
from benchmarks.kills import outcome
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from rich.console import Console

from anyformer import checkpoint, stores
from anyformer.api import architecture
from anyformer.checkpoint import CheckpointError, remote, store_cache
from anyformer.checkpoint.history import step_of
from anyformer.cli import main
from anyformer.describe import Notice, UserError, change_all
from anyformer.loading import load, trained_length
from anyformer.stores import StoreError
from anyformer.training import begin_or_resume, loop, resume, train
from anyformer.training.changes import ChangedError
from anyformer.training.journal import read_metrics

QUIET = Console(quiet=True)
ONE = Path("runs/one")


class FailingFile(MemoryFile):
    """A file of a store that is full."""

    def write(self, data):
        if self.fs.fails(self.path):
            raise OSError(errno.ENOSPC, "the bucket is full")
        return super().write(data)


class FailingStore(MemoryFileSystem):
    """A store that fails wherever `fails` says so."""

    protocol = "failing"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    @staticmethod
    def fails(path: str) -> bool:
        return False

    def _open(self, path, mode="rb", **more):
        if mode != "rb" and self.fails(path):
            raise OSError(errno.ENOSPC, "the bucket is full")
        return super()._open(path, mode, **more)


fsspec.register_implementation("failing", FailingStore, clobber=True)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Runs are written into the test's own directory, and no test finds what another one stored."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    yield
    MemoryFileSystem.store.clear()
    FailingStore.store.clear()


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return "memory://bucket/runs" if request.param == "memory" else f"file://{tmp_path}/bucket/runs"


def stored(run, store, **checkpoints):
    return change_all(run, {"checkpoints.store": store, **{f"checkpoints.{key}": value for key, value in checkpoints.items()}})


def files_in(url):
    return {each.removeprefix(f"{url}/") for each in stores.listed(url)}


def test_a_store_has_the_checkpoints_that_are_kept_and_the_run_beside_them(tiny, store):
    train(stored(tiny, store, every=1, keep=1, keep_every=3), ONE, console=QUIET)
    steps, url = checkpoint.steps(ONE), f"{store}/one"
    best = checkpoint.best(ONE)
    assert set(steps) == {3, 6, 8, step_of(best.name)}
    assert remote.stored_steps(url) == steps
    names = {path.relative_to(ONE).as_posix() for path in ONE.rglob("*") if path.is_file()} - {"end.json"}
    assert files_in(url) == names
    for name in names:
        with stores.opened(stores.joined(url, name)) as file:
            assert file.read() == (ONE / name).read_bytes(), name


def test_a_run_goes_on_elsewhere_to_the_same_bits(tiny, store):
    train(stored(tiny, store, keep=9), ONE, console=QUIET)
    url, expected = f"{store}/one", outcome(ONE)
    remote.drop_stored(url, [step for step in remote.stored_steps(url) if step > 3])
    shutil.rmtree(ONE)
    said = Console(record=True, file=StringIO())
    assert resume(url, console=said).directory == ONE
    assert "continuing runs/one after step 3 of 8" in said.export_text()
    assert outcome(ONE) == expected
    assert remote.stored_steps(url) == checkpoint.steps(ONE)


def test_copies_after_the_step_from_which_a_run_goes_on_make_way_for_new_ones(tiny):
    url = "memory://bucket/runs/one"
    train(stored(tiny, "memory://bucket/runs", every=2, keep=9), ONE, console=QUIET)
    checkpoint.drop(ONE, 4)
    resume(ONE, {"steps": 6, "checkpoints.keep": 1}, console=QUIET)
    assert checkpoint.steps(ONE)[-1] == 6
    assert remote.stored_steps(url) == checkpoint.steps(ONE)
    with stores.opened(f"{remote.url_of(url, 6)}/manifest.json") as file:
        assert file.read() == (checkpoint.directory_of(ONE, 6) / "manifest.json").read_bytes()


def test_what_is_here_and_as_new_is_not_fetched_and_another_run_is_refused(tiny, monkeypatch):
    train(stored(tiny, "memory://bucket/runs"), ONE, console=QUIET)
    train(change_all(tiny, {"seed": 5, "checkpoints.store": "memory://other"}), "two", console=QUIET)
    monkeypatch.setattr(remote, "fetch", lambda *given: pytest.fail("it is here"))
    assert resume("memory://bucket/runs/one", {"steps": 10}, console=QUIET).step == 10
    (ONE / "run.toml").write_text(Path("two/run.toml").read_text())
    with pytest.raises(ChangedError, match="seed"):
        resume("memory://bucket/runs/one", console=QUIET)
    with pytest.raises(UserError, match="memory://bucket/runs/three: not a run"):
        resume("memory://bucket/runs/three", console=QUIET)


def test_one_line_begins_a_run_and_goes_on_with_it_wherever_it_is_started(tiny):
    url = "memory://bucket/one"
    trained = begin_or_resume(tiny, url, console=QUIET)
    assert (trained.directory, trained.step) == (ONE, 8)
    shutil.rmtree(ONE)
    trained = begin_or_resume(tiny, url, {"steps": 10}, console=QUIET)
    assert (trained.directory, trained.step) == (ONE, 10)
    assert read_metrics(ONE)[0]["step"] == 1
    assert remote.stored_steps(url)[-1] == 10


def test_a_run_that_was_killed_before_its_first_copy_goes_on_in_its_directory(tiny, monkeypatch):
    url = "memory://bucket/runs/one"
    with monkeypatch.context() as patched:
        patched.delattr(loop.Session, "go")
        with pytest.raises(AttributeError, match="go"):
            begin_or_resume(tiny, url, console=QUIET)
    assert (ONE / "run.toml").is_file()
    assert not stores.exists(url)
    trained = begin_or_resume(tiny, url, console=QUIET)
    assert (trained.directory, trained.step) == (ONE, 8)
    assert remote.stored_steps(url)[-1] == 8
    with pytest.raises(UserError, match="runs/one: already holds a run"):
        begin_or_resume(tiny, "memory://elsewhere/one", console=QUIET)


def flipped(url):
    with stores.opened(url) as file:
        data = bytearray(file.read())
    data[len(data) // 2] ^= 1
    with stores.opened(url, "wb") as file:
        file.write(bytes(data))


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "manifest"])
def test_a_damaged_copy_is_named_and_the_one_before_it_is_used(tiny, damage):
    train(stored(tiny, "memory://bucket/runs", keep=9), ONE, console=QUIET)
    url, expected = "memory://bucket/runs/one", outcome(ONE)
    older, newest = remote.stored_steps(url)[-2:]
    weights = f"{remote.url_of(url, newest)}/model.safetensors"
    match damage:
        case "flip":
            flipped(weights)
        case "truncate":
            with stores.opened(weights) as file:
                data = file.read()
            with stores.opened(weights, "wb") as file:
                file.write(data[:-1])
        case "delete":
            stores.removed(weights)
        case "manifest":
            weights = f"{remote.url_of(url, newest)}/manifest.json"
            flipped(weights)
    shutil.rmtree(ONE)
    with pytest.warns(Notice, match=rf"skipping a damaged checkpoint: .*{re.escape(weights)}: (missing|changed|damaged)"):
        model, _ = load(url)
    assert torch.equal(model.embedding.weight, remote_weight(url, older))
    said = Console(record=True, file=StringIO(), width=1000)
    resume(url, console=said)
    lines = said.export_text()
    assert f"skipping a damaged checkpoint: {weights}" in lines
    assert f"after step {older}" in lines
    found = outcome(ONE)
    assert found["rows"] == expected["rows"]
    assert found["files"].items() <= expected["files"].items()
    assert checkpoint.steps(ONE)[-1] == newest


def remote_weight(url, step):
    return load(remote.url_of(url, step))[0].embedding.weight


def test_a_store_that_fails_at_any_moment_loses_nothing_and_training_goes_on(tiny, monkeypatch):
    """Each write of a run's copies fails once; what can be seen in the store afterwards is whole."""
    opens = []
    monkeypatch.setattr(FailingStore, "fails", staticmethod(lambda path: opens.append(path)))
    run, url = stored(tiny, "failing://bucket", every=4, keep=2), "failing://bucket/run"
    train(run, "run", console=QUIET)
    expected, count = outcome(Path("run")), len(opens)
    assert count > 20
    with pytest.raises(StoreError, match=r"failing://bucket/run/.anyformer: the store failed .*the bucket is full"):
        failing(run, 0, monkeypatch)
    for at in range(1, count, 5):
        said = failing(run, at, monkeypatch)
        assert "not copied to the store: failing://bucket/run" in said, at
        assert "the bucket is full" in said, at
        assert outcome(Path("run")) == expected, at
        seen = remote.stored_steps(url)
        for step in seen:
            assert checkpoint.read_manifest(checkpoint.directory_of(Path("run"), step)).files == stored_files(url, step)
            remote.fetch(remote.url_of(url, step), Path("fetched"))
        assert seen, at


def test_a_file_of_the_run_that_vanishes_stops_no_training_and_files_of_others_stay(tiny, monkeypatch):
    opened, url, said = Path.open, "memory://bucket/one", Console(record=True, file=StringIO(), width=1000)

    def vanished(path, mode="r", *given, **more):
        if path.name == "environment.json" and mode == "rb":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return opened(path, mode, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", vanished)
        assert train(stored(tiny, "memory://bucket"), ONE, console=said).step == 8
    assert "not copied to the store: runs/one/environment.json: cannot be read (No such file" in said.export_text()
    assert remote.stored_steps(url) == []
    (ONE / "notes").mkdir()
    (ONE / "notes" / "mine.txt").write_text("of nobody else")
    resume(ONE, {"steps": 9}, console=QUIET)
    assert remote.stored_steps(url) == [9]
    assert {"run.toml", "metrics.jsonl", "environment.json", "summary.json"} <= files_in(url)
    assert "notes/mine.txt" not in files_in(url)


def stored_files(url, step):
    return remote.stored_manifest(remote.url_of(url, step)).files


def failing(run, at, monkeypatch):
    """What the run says whose write number `at` to a new store fails."""
    FailingStore.store.clear()
    shutil.rmtree("run", ignore_errors=True)
    shutil.rmtree("fetched", ignore_errors=True)
    opens, said = [], Console(record=True, file=StringIO(), width=1000)

    def fails(path):
        opens.append(path)
        return len(opens) == at + 1

    monkeypatch.setattr(FailingStore, "fails", staticmethod(fails))
    train(run, "run", console=said)
    return said.export_text()


def test_a_store_that_cannot_be_used_is_refused_before_any_work(tiny, monkeypatch):
    train(stored(tiny, "memory://bucket"), "run", console=QUIET)
    shutil.rmtree("run")
    monkeypatch.setattr(loop, "corpus_together", lambda run, ranks: pytest.fail("work was done"))
    with pytest.raises(
        StoreError, match="memory://bucket/run: already holds a run; continue it with --resume memory://bucket/run"
    ):
        train(stored(tiny, "memory://bucket"), "run", console=QUIET)
    with pytest.raises(StoreError, match="fsspec knows no nosuch://"):
        train(stored(tiny, "nosuch://bucket"), "run", console=QUIET)
    with pytest.raises(UserError, match="'bucket/runs' is no URL of a store"):
        stored(tiny, "bucket/runs")
    for url in ("sftp://me:hidden@host/runs", "https://host/runs?signature=hidden"):
        with pytest.raises(UserError, match=r"password or a token.*environment variables") as refused:
            stored(tiny, url)
        assert "hidden" not in str(refused.value)
    assert stored(tiny, "abfs://runs@account.dfs.core.windows.net/a").checkpoints.store


def test_a_run_that_goes_on_replaces_no_other_run_of_its_name(tiny):
    train(stored(tiny, "memory://bucket"), ONE, console=QUIET)
    train(change_all(tiny, {"seed": 5}), "other/one", console=QUIET)
    before = files_in("memory://bucket/one")
    with pytest.raises(StoreError, match=r"(?s)memory://bucket/one: holds another run.*checkpoints\.store.*seed: 0 -> 5"):
        resume("other/one", {"steps": 10, "checkpoints.store": "memory://bucket"}, console=QUIET)
    assert files_in("memory://bucket/one") == before
    resume(ONE, {"steps": 9}, console=QUIET)


def test_of_a_stored_run_what_a_model_needs_is_fetched_once_and_stays_within_bounds(tiny, monkeypatch):
    url = "memory://bucket/one"
    train(stored(tiny, "memory://bucket", keep=9), ONE, console=QUIET)
    whole, tokenizer = load(ONE)
    found, same = load(url)
    assert same == tokenizer
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), whole.parameters(), strict=True))
    place = checkpoint.at_hand(url)
    (kept,) = [path for path in place.rglob("*") if path.name.endswith(".safetensors")]
    assert kept.name == "model.safetensors"
    assert (architecture(url), trained_length(url)) == (whole.architecture, tiny.length)
    first = checkpoint.at_hand(remote.url_of(url, 3))
    assert first.name == "step-00000003"
    assert trained_length(first) == tiny.length
    with monkeypatch.context() as patched:
        patched.setattr(store_cache, "fetch", lambda *given, **more: pytest.fail("it is here"))
        assert checkpoint.at_hand(remote.url_of(url, 3)) == first
    monkeypatch.setattr(store_cache, "ROOM", 1)
    train(stored(tiny, "memory://bucket"), "two", console=QUIET)
    other = checkpoint.at_hand("memory://bucket/two")
    assert other.is_dir()
    assert not place.exists(), "what was used longest ago makes way"
    with pytest.raises(CheckpointError, match="memory://bucket/none: holds no whole checkpoint"):
        load("memory://bucket/none")


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-9] + b"~" + data[-8:]])
def test_a_damaged_copy_of_a_model_is_fetched_again(tiny, name, damage):
    train(stored(tiny, "memory://bucket"), ONE, console=QUIET)
    (damaged,) = checkpoint.at_hand("memory://bucket/one").rglob(name)
    whole = damaged.read_bytes()
    damaged.write_bytes(damage(whole))
    found, _ = load("memory://bucket/one")
    assert torch.equal(found.embedding.weight, load(ONE)[0].embedding.weight)
    assert damaged.read_bytes() == whole


def test_commands_take_the_url_of_a_run(tiny, capsys, monkeypatch):
    plain = {"dropout": 0.0, "layer.attention.dropout": 0.0, "layer.feedforward.multiplier": 1.0}
    llama = change_all(tiny, {f"architecture.decoder.{path}": value for path, value in plain.items()})
    train(stored(llama, "memory://bucket"), ONE, console=QUIET)  # of a family that is found at once
    shutil.rmtree(ONE)
    for command in (["generate", "{}", "def f", "--max-tokens", "3"], ["export", "{}", "out"], ["show", "{}"]):
        monkeypatch.setattr("sys.argv", ["anyformer", *(each.format("memory://bucket/one") for each in command)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, capsys.readouterr().err
    assert "fetching memory://bucket/one" in capsys.readouterr().err
    assert Path("out/config.json").is_file()
    assert not ONE.exists()
