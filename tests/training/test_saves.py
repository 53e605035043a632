"""How long training waits for saves: what the benchmark counts, and that the page says what the committed result does."""

from __future__ import annotations

import json
import runpy
import threading
from pathlib import Path

import pytest
from benchmarks import saves, share_waits

from anyformer import checkpoint
from anyformer.training.step import Updates

DOCS = Path(__file__).parents[2] / "docs"
UPDATES, EVERY = 6, 2


@pytest.fixture
def run(tmp_path):
    (tmp_path / "text.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400)))
    return saves.run_of(saves.TINY, UPDATES, EVERY, (str(tmp_path / "text.py"),))


def test_waiting_for_each_write_counts_all_of_it_and_no_update_runs_beside_one(run, tmp_path):
    found = saves.attempt(run, tmp_path / "run", background=False)
    assert (found["saves"], found["updates"], found["updates_beside_a_write"]) == (UPDATES // EVERY, UPDATES, 0)
    assert sum(found["writes"]) <= found["waited"] <= found["seconds"]
    assert found["summary"]["saves"] == found["saves"]


def test_in_the_background_an_update_runs_beside_a_write_and_is_not_waited_for(run, tmp_path, monkeypatch):
    """Every write but the last ends only after another update, for which nothing that waited for the write would let it go."""
    real, update, updated = checkpoint.write, Updates.update, threading.Event()

    def slow(given, directory):
        if given.facts["step"] < UPDATES:
            updated.clear()
            assert updated.wait(60), "training goes on while the writer waits"
        real(given, directory)

    def told(self, *given, **named):
        try:
            return update(self, *given, **named)
        finally:
            updated.set()

    monkeypatch.setattr(checkpoint, "write", slow)
    monkeypatch.setattr(Updates, "update", told)
    found = saves.attempt(run, tmp_path / "run", background=True)
    assert found["saves"] == UPDATES // EVERY
    assert found["updates_beside_a_write"] >= UPDATES // EVERY - 1


def test_updates_between_saves_and_what_is_written(tmp_path, run, monkeypatch):
    assert saves.interval(saves.TINY, tmp_path / "first", run.data.paths)[0] == 2
    monkeypatch.setattr(saves, "RESULT", tmp_path / "saves.json")
    rows = [{"way": "background", "waited": 1.0, "seconds": 9.0}, {"way": "background", "waited": 2.0, "seconds": 21.0}]
    saves.write([*rows, {"way": "waiting", "waited": 5.0, "seconds": 20.0}], saves.TINY, every=7, update=0.5)
    record = json.loads(saves.RESULT.read_text())
    assert record["shares"] == {"background": 0.1, "waiting": 0.25}
    assert record["seconds_between_saves"] == 3.5


def test_waits_are_compared_with_plain_copies_by_their_medians():
    found = [share_waits.Waits([0.3, 0.1, 9.0], [0.2, 0.2, 0.1]), share_waits.Waits([0.1, 0.1], [0.1, 0.3])]
    record = share_waits.told(found)
    assert (record["ratios"], record["worst_ratio"]) == ([1.5, 0.5], 1.5)


def test_the_committed_share_is_below_two_per_cent_and_stands_in_the_guide():
    record = json.loads(saves.RESULT.read_text())
    for way, share in record["shares"].items():
        rows = [each for each in record["results"] if each["way"] == way]
        assert len(rows) == record["sizes"]["rounds"]
        assert share == pytest.approx(sum(each["waited"] for each in rows) / sum(each["seconds"] for each in rows), rel=1e-3)
        for each in rows:
            assert each["saves"] == each["summary"]["saves"] == record["sizes"]["saves"]
            assert each["waited"] == pytest.approx(sum(each["waits"]), abs=1e-3)
            assert each["waited"] == pytest.approx(each["summary"]["waited"], rel=0.02, abs=0.01), "the summary of the run"
    assert record["shares"]["background"] < 0.02
    assert record["shares"]["background"] < record["shares"]["waiting"]
    said = runpy.run_path(str(DOCS / "make_train.py"))["saves"]()
    assert f"{record['shares']['background']:.1%}".replace("%", " %") in " ".join(said.split())
    assert said in (DOCS / "checkpoints.md").read_text(encoding="utf-8"), "run: python docs/make_train.py"
