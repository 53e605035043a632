"""What a run is continued with: what may change does, in words, and what its updates were computed with may not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import UserError, change_all
from anyformer.training import read_run, resume, train, trainer
from anyformer.training.changes import ChangedError, check_data
from anyformer.training.evaluate import Evaluated
from anyformer.training.journal import read_metrics
from anyformer.training.step import Updates

QUIET = Console(quiet=True)


def console():
    return Console(record=True, width=300, file=open("/dev/null", "w"))


@pytest.fixture
def done(tiny, tmp_path):
    train(tiny, tmp_path / "run", console=QUIET)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("seed = 0", "seed = 7", "seed: 0 -> 7"),
        ("learning_rate = 0.003", "learning_rate = 0.5", "optimiser.learning_rate: 0.003 -> 0.5"),
    ],
)
def test_a_run_edited_by_hand_is_refused_with_what_differs(done, before, after, words):
    path = done / "run.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(ChangedError, match=words):
        resume(done, console=QUIET)
    assert path.read_text() == text.replace(before, after)
    path.write_text(text)
    assert resume(done, console=QUIET).finished


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 8}, "batch: 4 -> 8"),
        ({"decoder.layer.attention.heads": 8}, "heads: 4 -> 8"),
        ({"schedule.floor": 0.5}, "schedule.floor: 0.1 -> 0.5"),
        ({"objective.z_loss": 0.1}, "objective.z_loss"),
    ],
)
def test_what_updates_are_computed_with_may_not_change(done, changes, words):
    with pytest.raises(ChangedError, match=words):
        resume(done, changes, console=QUIET)


def test_before_the_first_update_the_same_may_not_change(tiny, tmp_path, monkeypatch):
    """Such a run has no checkpoint to compare with, and took any value."""

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Updates, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(tiny, tmp_path / "run", console=QUIET)
    assert not checkpoint.steps(tmp_path / "run")
    with pytest.raises(ChangedError, match=r"was begun with other values.*\n  batch: 4 -> 8"):
        resume(tmp_path / "run", {"batch": 8}, console=QUIET)


def test_a_finished_run_goes_on_with_the_schedule_of_the_new_total(done, tiny):
    said = console()
    more = resume(done, {"steps": 12, "evaluation.every": 3}, console=said)
    assert more.finished
    assert (more.step, read_run(done).steps, read_run(done).evaluation.every) == (12, 12, 3)
    assert "changed after step 8: steps: 8 -> 12" in said.export_text(styles=True), "no number in it is coloured"
    rates = {row["step"]: row["learning_rate"] for row in read_metrics(done) if row["kind"] == "train"}
    longer = change_all(tiny, {"steps": 12})
    assert rates[8] == tiny.learning_rate(7)
    assert [rates[step] for step in range(9, 13)] == [longer.learning_rate(step) for step in range(8, 12)]


def test_a_run_with_nothing_left_says_so_and_touches_nothing(done, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file()}
    said = console()
    assert resume(done, console=said).finished
    text = said.export_text()
    assert "all 8 updates are done, nothing to do" in text
    assert "--set steps=16" in text
    assert {path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file()} == before


def test_fewer_updates_than_are_done_is_refused(done):
    with pytest.raises(UserError, match=r"8 updates are done, but steps = 5"):
        resume(done, {"steps": 5}, console=QUIET)


def test_the_files_that_changed_are_named(tiny, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.txt").write_text(f"text of {name} " * 60)
    run = change_all(tiny, {"data.paths": [str(folder)], "data.validation": 0.3, "evaluation.every": 100, "steps": 2})
    train(run, tmp_path / "run", console=QUIET)
    (folder / "a.txt").touch()
    assert resume(tmp_path / "run", {"steps": 3}, console=QUIET).finished, "a time of change is no change"
    (folder / "b.txt").write_text("another text " * 70)
    (folder / "c.txt").unlink()
    (folder / "e.txt").write_text("a new text " * 50)
    with pytest.raises(ChangedError) as error:
        resume(tmp_path / "run", {"steps": 4}, console=QUIET)
    assert [line.strip() for line in str(error.value).splitlines()[1:-1]] == [
        f"{folder / 'b.txt'}: its text changed",
        f"{folder / 'c.txt'}: is no longer read",
        f"{folder / 'e.txt'}: is new",
    ]


def test_of_many_files_that_changed_ten_are_named_and_the_others_counted():
    corpus = SimpleNamespace(digest="now", sources={f"{n:02}.txt": "new" for n in range(13)})
    with pytest.raises(ChangedError) as error:
        check_data({"digest": "then", "sources": {}}, corpus, "run")
    lines = [line.strip() for line in str(error.value).splitlines()[1:-1]]
    assert lines == [*(f"{n:02}.txt: is new" for n in range(10)), "and 3 more"]


def test_the_best_loss_of_an_earlier_process_is_remembered(tiny, tmp_path, monkeypatch):
    """Losses 1.0, then 5.0 after a resume: that is no best, so its step is not saved for it and the first stays."""
    losses = iter([1.0, 5.0, 4.0, 6.0])

    def scripted(model, *args, progress, **more):
        return Evaluated(next(losses), 10, 10, None)

    real, saved = checkpoint.write, []
    monkeypatch.setattr(checkpoint, "write", lambda given, at: (saved.append(at.name), real(given, at)))
    monkeypatch.setattr(trainer, "evaluate", scripted)
    run = change_all(tiny, {"steps": 3, "evaluation.every": 3, "checkpoints.every": 100, "checkpoints.keep": 1})
    train(run, tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", {"steps": 10}, console=QUIET)
    assert [row["loss"] for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"] == [1.0, 5.0, 4.0, 6.0]
    assert saved == ["step-00000003", "step-00000010"], "not at 6 and 9, which were worse"
    assert checkpoint.steps(tmp_path / "run") == [3, 10]
    assert checkpoint.best(tmp_path / "run") == checkpoint.directory_of(tmp_path / "run", 3)


def test_a_resumed_run_equals_one_that_was_given_all_steps(tiny, tmp_path):
    """With a schedule that does not look at the end, continuing is the same as never having stopped."""
    run = change_all(tiny, {"schedule": {"kind": "constant", "warmup": 2}, "steps": 5})
    train(run, tmp_path / "run", console=QUIET)
    again = resume(tmp_path / "run", {"steps": 9}, console=QUIET)
    whole = train(change_all(run, {"steps": 9}), tmp_path / "whole", console=QUIET)
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), whole.model.parameters(), strict=True))
