"""Runs and studies in the explorer: few points that say what the lines say, bands, no directory but those opened."""

from __future__ import annotations

import json
from statistics import fmean

import pytest
from starlette.testclient import TestClient

from anyformer.exploring.curves import POINTS, SERIES, bands, curve, curves
from anyformer.exploring.desk import Desk
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.server import application


def update(step, loss, **more):
    usage = {"tokens_per_second_per_device": 100.0 + step, "mfu": 0.5, "memory": 10**9}
    return {"kind": "train", "step": step, "loss": loss, "gradient_norm": 1.0, "tokens": 10 * step, "seconds": 0.5} | {
        "learning_rate": 1e-3, "usage": usage, **more,
    }  # fmt: skip


def write_run(place, seed=0, steps=4, rows=None, summary=None, length=64):
    place.mkdir(parents=True)
    (place / "run.toml").write_text(
        f'seed = {seed}\nsteps = {steps}\nlength = {length}\narchitecture = "gpt2"\n[data]\nkind = "text"\n'
    )
    rows = [update(step, 4.0 / step + seed) for step in range(1, steps + 1)] if rows is None else rows
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if summary is not None:
        (place / "summary.json").write_text(json.dumps(summary))
    return place


@pytest.fixture
def opened(tmp_path):
    """Two runs that differ in their seed, one of experts that diverged, and a study of two trials."""
    experts = {"decoder.0": {"largest": 0.5, "dropped": 0.0}}
    shares = {"decoder.0": {"shares": [0.5, 0.25, 0.25], "dropped": 0.0}}
    rows = [
        update(1, 3.0, experts=experts),
        {"kind": "spike", "step": 1, "loss": 3.0},
        update(2, float("nan")),
        {"kind": "validation", "step": 2, "tokens": 20, "loss": 2.5, "experts": shares, "metrics": {}},
        {"kind": "train"},
    ]
    figures = {"memory": {"predicted": 10, "measured": 11, "difference": -0.09}, "resident": 5, "notes": ["a note"]}
    paths = [
        write_run(tmp_path / "one", seed=1, summary=figures),
        write_run(tmp_path / "two", seed=2),
        write_run(tmp_path / "experts", rows=rows, length=32),
    ]
    study = tmp_path / "study"
    for at, name in enumerate(("base-1", "wider-1")):
        write_run(study / "trials" / name, length=8 + at)
    (study / "study.toml").write_text('title = "does it matter?"\n')
    (study / "report.json").write_text('{"question": "does it matter?", "arms": []}')
    return [*map(str, paths), str(study)]


@pytest.fixture
def ask(opened):
    page = TestClient(application(Desk(opened), MemoryDesk()), base_url="http://127.0.0.1")

    def asked(address, status=200, **query):
        answer = page.get(address, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def test_every_run_that_was_opened_is_told(ask, opened):
    found = ask("/api/runs")
    assert [run["title"] for run in found["runs"]] == ["one", "two", "experts", "base-1", "wider-1"]
    one = found["runs"][0]
    assert (one["run"], one["state"], one["step"], one["steps"]) == (opened[0], "finished", 4, 4)
    losses = [5.0, 3.0, 4 / 3 + 1, 2.0]
    steps = {"step": [1, 2, 3, 4], "tokens": [10, 20, 30, 40]}
    assert one["series"]["loss"] == {**steps, "mean": losses, "low": losses, "high": losses}
    assert one["predicted"] == {
        "figures": {"memory": {"predicted": 10, "measured": 11, "difference": -0.09}},
        "notes": ["a note"],
    }
    assert one["settings"]["seed"] == 1


def test_runs_that_differ_in_their_seed_have_a_band(ask, opened):
    band, *others = ask("/api/runs")["bands"]
    assert band["runs"] == opened[:2]
    assert band["series"]["loss"] == {
        "step": [1, 2, 3, 4], "mean": [5.5, 3.5, pytest.approx(4 / 3 + 1.5), 2.5],
        "low": [5.0, 3.0, 4 / 3 + 1, 2.0], "high": [6.0, 4.0, 4 / 3 + 2, 3.0],
    }  # fmt: skip
    assert others == []


def test_experts_events_and_a_loss_that_is_no_number(ask, opened):
    (found,) = ask("/api/runs", run=opened[2])["runs"]
    assert found["experts"]["decoder.0"]["shares"] == [[0.5, 0.25, 0.25]]
    assert found["experts"]["decoder.0"]["largest"]["mean"] == [0.5]
    assert [row["kind"] for row in found["events"]] == ["spike"]
    assert found["series"]["loss"]["step"] == [1]
    assert found["update"]["loss"] is None
    assert found["evaluations"][0]["loss"] == 2.5


def test_a_study_is_told_with_its_report_and_every_trial(ask, opened):
    found = ask("/api/study")
    assert (found["title"], found["report"]["arms"]) == ("does it matter?", [])
    assert [trial["title"] for trial in found["trials"]] == ["base-1", "wider-1"]
    assert [run["title"] for run in ask("/api/runs", run=found["trials"][1]["run"])["runs"]] == ["wider-1"]
    kinds = {each["of"]: each["kind"] for each in ask("/api/start")["opened"]}
    assert kinds == {**dict.fromkeys(opened[:3], "run"), opened[3]: "study"}


def test_a_run_has_the_sheet_of_its_architecture_too(ask, opened):
    assert ask("/api/figures", of=opened[0])["figures"]["parameters"]["total"] == 124_439_808


def test_no_directory_but_those_opened_is_read(ask, opened, tmp_path):
    other = write_run(tmp_path / "other")
    for name in (str(other), f"{opened[0]}/../other", f"{opened[3]}/trials/../../other", "/", ""):
        assert ask("/api/runs", 404, run=name)["errors"]
        assert ask("/api/study", 404, study=name)["errors"]
    assert ask("/api/runs", 400, runs="x")["errors"]


def test_a_run_that_goes_on_is_read_on(ask, opened):
    before = ask("/api/runs", run=opened[1])["runs"][0]["step"]
    with open(f"{opened[1]}/metrics.jsonl", "a") as file:
        file.write(json.dumps(update(5, 1.0)) + "\n")
    assert (before, ask("/api/runs", run=opened[1])["runs"][0]["step"]) == (4, 5)


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 5 * POINTS + 7])
def test_a_curve_has_few_points_that_hold_every_update(count):
    rows = [update(step, float(step % 7)) for step in range(1, count + 1)]
    points = curve(rows, SERIES["loss"])
    assert len(points["step"]) <= POINTS
    assert points["step"][-1] == count
    assert (min(points["low"]), max(points["high"])) == (min(row["loss"] for row in rows), max(row["loss"] for row in rows))
    share = -(-count // POINTS)
    assert points["mean"][0] == pytest.approx(fmean(row["loss"] for row in rows[:share]))


def test_lines_of_another_version_are_left_out():
    rows = [{"kind": "train", "step": 1, "loss": "none", "usage": 3}, update(2, None), update(3, True), update(4, 1.5)]
    assert curves(rows)["loss"]["step"] == [4]
    assert bands({"a": rows, "b": rows}, {"a": {"seed": 1, "x": 1}, "b": {"seed": 1, "x": 2}}) == []
